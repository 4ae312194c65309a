/**
 * What the study accepts: inputs within its bounds, outputs and noise within its limits, as motet/study/limits.py has
 * it. Whatever the server would refuse, the page refuses at once, with the limits in words.
 */

import { number } from "./columns.js";
import { state, target } from "./state.js";
import { limit } from "./words.js";

/** @typedef {import("./columns.js").Columns} Columns */

const ANY_OUTPUT = [-1e100, 1e100];

/** A value that is refused, and in which column. */
export class Misfit extends Error {
  /** @param {string} column @param {string} reason */
  constructor(column, reason) {
    super(`${column}: ${reason}`);
    this.column = column;
    this.reason = reason;
  }
}

/** What a cell of an input says. @param {Columns} inputs @param {number} k @param {any} cell */
export function inputNumber(inputs, k, cell) {
  const column = inputs.columns[k];
  try {
    const value = column.number(cell);
    const [low, high] = inputBounds(inputs, k);
    if (low <= value && value <= high) return value;
    const text = (/** @type {number} */ end) => (column.isNumeric ? limit(Number(column.cell(end))) : column.cell(end));
    throw new Error(`expected ${column.kind} from ${text(low)} to ${text(high)}, got ${text(value)}`);
  } catch (error) {
    throw new Misfit(column.name, /** @type {Error} */ (error).message);
  }
}

/** The lowest and the highest number of an input. @param {Columns} inputs @param {number} k @returns {[number, number]} */
export function inputBounds(inputs, k) {
  const column = inputs.columns[k];
  if (column.values.length) return [0, column.values.length - 1];
  const [low, high] = column.bounds ?? state.study?.bounds?.[inputs.firstPlaces[k]] ?? [-Infinity, Infinity];
  return [low, high];
}

/** @param {any} cell */
export function outputNumber(cell) {
  return within(target(), cell, "a number", state.study?.limits.y ?? ANY_OUTPUT);
}

/** @param {any} cell */
export function noiseNumber(cell) {
  return within("noise", cell, "a variance", state.study?.limits.noise ?? [Number.MIN_VALUE, Infinity]);
}

/** @param {string} column @param {any} cell @param {string} kind @param {number[]} limits */
function within(column, cell, kind, [low, high]) {
  const text = String(cell ?? "").trim();
  const value = number(text);
  if (value === null) throw new Misfit(column, `expected a number, got ${text === "" ? "nothing" : JSON.stringify(text)}`);
  if (value < low || value > high) throw new Misfit(column, `expected ${kind} from ${limit(low)} to ${limit(high)}, got ${limit(value)}`);
  return value;
}
