/**
 * Examples as a visitor enters them: fields by the names of the study's inputs, checked as they are read.
 *
 * Before the first release the inputs are those of the study's description.
 */

import { Columns, number } from "./columns.js";
import { json } from "./connection.js";
import { element } from "./dom.js";
import { outputTitle } from "./output.js";
import { state, target } from "./state.js";
import { read } from "./table.js";

/** @typedef {{cells: Record<string, string>, y: number}} Example cells by the inputs' names; a catalogue's item has the one "name" */
/** @typedef {{names: string[] | null, inputs: Columns, named: boolean}} Inputs */

/** @type {Inputs | null} */
let described = null;

/** The inputs, if they are known already. @returns {Inputs | null} */
export function inputs() {
  const { release } = state;
  return release === null ? described : { names: release.names, inputs: release.inputs, named: release.columns !== null };
}

/** Ask for the inputs of a study that has no release. */
export async function describe() {
  if (inputs() !== null) return;
  const { model, dimension } = await json("/v1/study");
  described = { names: model.catalogue?.names ?? null, inputs: Columns.of(model, dimension), named: model.columns !== undefined };
}

/** The columns of a table of examples, without the output. */
export function inputNames() {
  const known = inputs();
  return known === null ? [] : known.names !== null ? ["name"] : known.inputs.columns.map((column) => column.name);
}

/** Refuse cells that are no input; `where` begins the message. @param {Record<string, string>} cells @param {string} [where] */
export function check(cells, where = "") {
  const known = inputs();
  if (known === null) throw new Error("the study's inputs are not known yet");
  if (known.names !== null) {
    if (!known.names.includes(cells.name)) throw new Error(`${where}name: ${JSON.stringify(cells.name)} is not in the catalogue`);
    return;
  }
  for (const column of known.inputs.columns) {
    try {
      column.number(cells[column.name]);
    } catch (error) {
      throw new Error(`${where}${column.name}: ${/** @type {Error} */ (error).message}`);
    }
  }
}

/** Whether a cell fits; examples that a browser kept may be of another study. @param {Example} example */
export function fits({ cells }) {
  try {
    check(cells);
    return true;
  } catch {
    return false;
  }
}

/** One number for each column. @param {Record<string, string>} cells */
export function numbers(cells) {
  return /** @type {Inputs} */ (inputs()).inputs.columns.map((column) => column.number(cells[column.name]));
}

/** An example from cells of which one is the output. @param {Record<string, string>} all @param {string} [where] @returns {Example} */
function example(all, where = "") {
  const { [target()]: output, ...cells } = all;
  check(cells, where);
  const y = number(output);
  if (y === null) throw new Error(`${where}${target()}: expected a number, got ${output === "" ? "nothing" : JSON.stringify(output)}`);
  return { cells, y };
}

/** Examples from CSV, all or none. @param {string} text @returns {Example[]} */
export function fromTable(text) {
  const rows = read(text, [...inputNames(), target()]).map(({ number: row, cells }) => example(cells, `row ${row}, `));
  if (rows.length === 0) throw new Error("the file has a header, and no example");
  return rows;
}

// --- fields ---

/** Fields for one example, with ids that begin with `prefix`. @param {string} prefix @param {Example} [given] */
export function fields(prefix, given) {
  const known = inputs();
  if (known === null) return [];
  const asked = known.names !== null
    ? [field(prefix, "name", "name", [], given?.cells.name, known.names)]
    : known.inputs.columns.map((column) => field(prefix, column.name, column.title, column.values, given?.cells[column.name]));
  return [...asked, field(prefix, target(), outputTitle(), [], given === undefined ? "" : String(given.y))];
}

/** @param {string} prefix @param {string} name @param {string} title @param {string[]} values @param {string} [value] @param {string[]} [suggestions] */
function field(prefix, name, title, values, value = "", suggestions = []) {
  const id = `${prefix}-${name}`;
  const list = suggestions.length ? element("datalist", { id: `${id}-list` }, ...suggestions.map((one) => element("option", { value: one }))) : null;
  const control = values.length
    ? element("select", { id, name }, ...values.map((one) => element("option", { selected: one === value }, one)))
    : element("input", { id, name, value, autocomplete: "off", size: suggestions.length ? 18 : 8, list: list?.id });
  return element("span", { class: "field" }, element("label", { for: id }, title), control, list);
}

/** What the fields of a form say. @param {HTMLFormElement} form @returns {Example} */
export function fromForm(form) {
  return example(Object.fromEntries(Array.from(new FormData(form), ([name, value]) => [name, String(value).trim()])));
}

// --- as the server has them ---

/** @param {Example} given */
export function toBody({ cells, y }) {
  const known = /** @type {Inputs} */ (inputs());
  if (known.names !== null) return { x: cells.name, y };
  if (!known.named) return { x: numbers(cells), y };
  const named = known.inputs.columns.map((column) => [column.name, column.isNumeric ? Number(column.cell(column.number(cells[column.name]))) : cells[column.name]]);
  return { x: Object.fromEntries(named), y };
}

/** @param {{x: any, y: number}} body @returns {Example} */
export function fromBody({ x, y }) {
  if (typeof x === "string") return { cells: { name: x }, y };
  const values = Array.isArray(x) ? Object.fromEntries(x.map((one, k) => [inputNames()[k], one])) : x;
  return { cells: Object.fromEntries(Object.entries(values).map(([name, cell]) => [name, String(cell)])), y };
}

/** An input in one line. @param {Example} given */
export function inputText({ cells }) {
  const known = inputs();
  if (known === null || known.names !== null || known.inputs.columns.length === 1) return Object.values(cells).join(", ");
  return inputNames().map((name) => `${name} ${cells[name]}`).join(", ");
}
