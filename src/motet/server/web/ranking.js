/** Lists of a catalogue's best items, with their uncertainty. */

import { interval } from "./charts.js";
import { element } from "./dom.js";
import { possible } from "./output.js";
import { count } from "./words.js";

/** @typedef {import("./calculator.js").Prediction} Prediction */

export const LENGTH = 20;

/** Digits behind the point that show a thousandth of the whole range. @param {[number, number]} range */
function digits([low, high]) {
  return Math.min(Math.max(2 - Math.floor(Math.log10((high - low) / 2)), 0), 6);
}

/** @param {number} value @param {[number, number]} range */
function fixed(value, range) {
  const text = value.toFixed(digits(range));
  return Number(text) === 0 ? text.replace("-", "") : text.replace("-", "−");
}

/** Items from the best on; equal ones in the catalogue's order. @param {Float64Array} mean */
export function order(mean) {
  return Array.from(mean.keys()).sort((a, b) => mean[b] - mean[a] || a - b);
}

/** The ends of all intervals, for one scale. @param {...Prediction | null} predictions @returns {[number, number]} */
export function scale(...predictions) {
  let [low, high] = [Infinity, -Infinity];
  for (const prediction of predictions)
    prediction?.mean.forEach((mean, i) => {
      const half = 1.96 * (prediction.std?.[i] ?? 0);
      [low, high] = [Math.min(low, possible(mean - half)), Math.max(high, possible(mean + half))];
    });
  return low < high ? [low, high] : [low - 1, high + 1];
}

/**
 * The best items of the average.
 * @param {string[]} names @param {Prediction} average @param {[number, number]} range
 * @param {(item: number) => string} [remark] on an item, such as its own rank
 */
export function averageList(names, average, range, remark) {
  const rows = order(average.mean).slice(0, LENGTH).map((item, k) => row(k + 1, names[item], average, item, range, "average", remark?.(item) ?? ""));
  return list("The best of the average, with standard deviations", rows);
}

/**
 * The personal best: each item with its place in the average's ranking, and the own ratings that moved it most.
 * @param {{
 *   names: string[], average: Prediction, own: Prediction, influence: {rows: number, data: Float64Array} | null,
 *   rated: {item: number, y: number}[], range: [number, number],
 * }} given
 */
export function ownList({ names, average, own, influence, rated, range }) {
  const places = new Map(order(average.mean).map((item, k) => [item, k + 1]));
  const mine = new Set(rated.map(({ item }) => item));
  const items = order(own.mean).filter((item) => !mine.has(item)).slice(0, LENGTH);
  const rows = items.map((item, k) => {
    const place = /** @type {number} */ (places.get(item));
    const up = place - (k + 1);
    const text = up === 0 ? "as in the average" : `${up > 0 ? "▲" : "▼"} ${Math.abs(up)}, average ${place}.`;
    return row(k + 1, names[item], own, item, range, "own", text, reasons(names, influence, rated, item, range));
  });
  return list("Your best, with standard deviations", rows);
}

/** Which own ratings moved an item most. @param {string[]} names @param {{rows: number, data: Float64Array} | null} influence @param {{item: number, y: number}[]} rated @param {number} item @param {[number, number]} range */
function reasons(names, influence, rated, item, range) {
  if (influence === null) return "";
  const n = influence.data.length / influence.rows;
  const moves = Array.from(influence.data.subarray(item * n, (item + 1) * n), (move, k) => ({ move, name: names[rated[k].item] }));
  const largest = moves.sort((a, b) => Math.abs(b.move) - Math.abs(a.move)).slice(0, 2);
  return largest.map(({ move, name }) => `${name} ${move > 0 ? "+" : ""}${fixed(move, range)}`).join(", ");
}

/** @param {number} rank @param {string} name @param {Prediction} prediction @param {number} item @param {[number, number]} range @param {"average" | "own"} kind @param {string} remark @param {string} [why] */
function row(rank, name, prediction, item, range, kind, remark, why = "") {
  const std = prediction.std?.[item] ?? null;
  return element(
    "li", { class: "ranked", "data-item": name, "data-mean": prediction.mean[item], "data-std": std },
    element("span", { class: "rank" }, `${rank}`),
    element("span", { class: "name" }, name),
    interval(prediction.mean[item], std, range, kind, possible),
    element("span", { class: "value" }, `${fixed(possible(prediction.mean[item]), range)}${std === null ? "" : ` ± ${fixed(std, range)}`}`),
    remark ? element("span", { class: "remark" }, remark) : null,
    why ? element("span", { class: "why" }, `moved by ${why}`) : null,
  );
}

/** @param {string} title @param {HTMLElement[]} rows */
function list(title, rows) {
  return element("ol", { class: "ranking", "aria-label": title }, ...rows);
}

/** How many items moved into a list that were not in the other. @param {Float64Array} average @param {Float64Array} own */
export function newcomers(average, own) {
  const before = new Set(order(average).slice(0, LENGTH));
  const after = order(own).slice(0, LENGTH).filter((item) => !before.has(item)).length;
  return `${count(after, "item")} of your ${LENGTH} ${after === 1 ? "is" : "are"} not among the average's ${LENGTH}`;
}
