/**
 * The chart of numeric inputs: the average, and the visitor's own function over it, along one input.
 *
 * With several inputs one selector chooses the input of the horizontal axis and another the input whose values are
 * compared; the others stay at a middle value, which is written beside the chart.
 */

import { predict } from "./calculator.js";
import { curves, ticks } from "./charts.js";
import { element, fill } from "./dom.js";
import { state, target } from "./state.js";
import { number } from "./words.js";

/** @typedef {import("./columns.js").Column} Column */
/** @typedef {{numbers: number[], y: number}} Example of one number for each column */

const POINTS = 160; // of a curve
const COMPARED = 4; // values of a category
const NARROW = 340; // pixels of a chart, at least

export class CurvePanel {
  /** @param {string} id of the panel, for labels */
  constructor(id) {
    /** @type {Example[]} */
    this.examples = [];
    /** Coefficients of an active client, in place of examples, which are then `dots`. @type {any} */
    this.coefficients = null;
    /** @type {Example[]} */
    this.dots = [];
    this.id = id;
    this.along = 0;
    this.compared = -1;
    this.selectors = element("div", { class: "selectors" });
    this.chart = element("div", { class: "chart-place" });
    this.note = element("p", { class: "note" });
    this.numbers = element("details", { class: "numbers" }, element("summary", {}, "The numbers"));
    this.root = element("div", { class: "curve-panel" }, this.selectors, this.chart, this.note, this.numbers);
    this.turn = 0;
    new ResizeObserver(() => this.#isShown && this.#width !== this.drawn && void this.draw()).observe(this.chart);
    this.drawn = 0;
  }

  get #width() {
    return Math.max(NARROW, Math.floor(this.chart.clientWidth)) || 640;
  }

  get #isShown() {
    return this.chart.clientWidth > 0;
  }

  get #all() {
    return [...this.examples, ...this.dots];
  }

  /** Draw anew, from the release that is there. */
  async draw() {
    const { release } = state;
    if (release === null || release.names !== null || !this.#isShown) return;
    const turn = ++this.turn;
    const { columns } = release.inputs;
    this.#select(columns);
    this.drawn = this.#width;
    const xs = grid(columns, this.along, this.#all);
    const middle = columns.map((column, k) => {
      const value = column.values.length ? 0 : (column.median ?? mean(range(columns, k, this.#all)));
      return column.since === null ? value : Math.round(value);
    });
    const series = [];
    for (const [style, value] of this.#values(columns).entries()) {
      const at = xs.map((x) => {
        const numbers = middle.map((one, k) => (k === this.along ? x : k === this.compared ? value : one));
        return release.inputs.expand(numbers);
      });
      const answer = await predict({ at, examples: this.#asRows(), coefficients: this.coefficients });
      if (turn !== this.turn) return;
      const suffix = this.compared < 0 ? "" : `, ${columns[this.compared].name} = ${shown(columns[this.compared], value)}`;
      series.push({ label: `average${suffix}`, kind: /** @type {const} */ ("average"), style, x: xs, ...answer.average });
      if (answer.own !== null) series.push({ label: `you${suffix}`, kind: /** @type {const} */ ("own"), style, x: xs, ...answer.own });
    }
    series.sort((a, b) => Number(a.kind === "own") - Number(b.kind === "own"));
    const dots = this.#all.map(({ numbers, y }) => ({ x: numbers[this.along], y }));
    const column = columns[this.along];
    const own = series.some((one) => one.kind === "own");
    const summary = `${target()} along ${column.name}: the average${own ? " and your own curve" : ""}, with 95 % bands; the numbers are below`;
    const text = (/** @type {number} */ value) => shown(column, value);
    fill(this.chart, curves({ series, dots, xTitle: column.title, yTitle: target(), xText: text, xTicks: marks(column), width: this.drawn, summary }));
    const others = columns.map((_, k) => k).filter((k) => k !== this.along && k !== this.compared);
    fill(this.note, others.length ? `Here ${others.map((k) => `${columns[k].name} = ${shown(columns[k], middle[k])}`).join(", ")}.` : "");
    this.#list(series, column);
  }

  /** The values of the compared input, or one that is not used. @param {Column[]} columns */
  #values(columns) {
    if (this.compared < 0) return [0];
    const { values } = columns[this.compared];
    if (values.length) return values.slice(0, COMPARED).map((_, place) => place);
    const [low, high] = range(columns, this.compared, this.#all);
    return [low, (low + high) / 2, high];
  }

  #asRows() {
    if (this.examples.length === 0) return null;
    const { inputs } = /** @type {import("./state.js").LoadedRelease} */ (state.release);
    return { rows: this.examples.map(({ numbers }) => inputs.expand(numbers)), y: this.examples.map(({ y }) => y) };
  }

  /** @param {Column[]} columns */
  #select(columns) {
    const numeric = columns.map((_, k) => k).filter((k) => !columns[k].values.length);
    if (!numeric.includes(this.along)) this.along = numeric[0] ?? 0;
    if (this.compared === this.along || this.compared >= columns.length) this.compared = -1;
    if (columns.length < 2 || this.selectors.contains(document.activeElement)) return;
    const choices = numeric.length ? numeric : columns.map((_, k) => k);
    const others = [-1, ...columns.map((_, k) => k).filter((k) => k !== this.along)];
    fill(
      this.selectors,
      this.#selector("along", "Along", choices, this.along, (k) => columns[k].title),
      this.#selector("compared", "Compare", others, this.compared, (k) => (k < 0 ? "nothing" : columns[k].title)),
    );
  }

  /** @param {"along" | "compared"} what @param {string} title @param {number[]} choices @param {number} chosen @param {(k: number) => string} text */
  #selector(what, title, choices, chosen, text) {
    const id = `${this.id}-${what}`;
    const options = choices.map((k) => element("option", { value: k, selected: k === chosen }, text(k)));
    const change = (/** @type {any} */ event) => {
      this[what] = Number(event.target.value);
      event.target.blur();
      void this.draw();
    };
    return element("span", {}, element("label", { for: id }, title), element("select", { id, change }, ...options));
  }

  /** The same as a table, for whoever cannot see the chart. @param {import("./charts.js").Series[]} series @param {Column} column */
  #list(series, column) {
    const picked = Array.from({ length: 9 }, (_, k) => Math.round((k * (POINTS - 1)) / 8)).filter((i) => i < series[0].x.length);
    const head = element("tr", {}, element("th", { scope: "col" }, column.title), ...series.map((one) => element("th", { scope: "col" }, one.label)));
    const rows = picked.map((i) =>
      element("tr", {}, element("th", { scope: "row" }, shown(column, series[0].x[i])),
        ...series.map((one) => element("td", { "data-x": one.x[i], "data-mean": one.mean[i], "data-std": one.std?.[i] }, number(one.mean[i]) + (one.std === null ? "" : ` ± ${number(one.std[i])}`)))));
    const table = element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows));
    this.numbers.replaceChildren(element("summary", {}, "The numbers (± is one standard deviation)"), element("div", { class: "scroll" }, table));
  }
}

/** A value of an input as text. @param {Column} column @param {number} value */
export function shown(column, value) {
  return column.isNumeric ? number(Number(column.cell(value))) : column.cell(value);
}

/** Where the horizontal axis has marks. @param {Column} column @returns {typeof ticks} */
function marks(column) {
  if (column.values.length) return () => column.values.map((text, value) => ({ value, text }));
  if (column.logAbove !== null) return (low, high, about) => roundTicks(column, ticks(low, high, about));
  if (column.since === null) return ticks;
  return (low, high, about) => ticks(low, high, about).map(({ value }) => ({ value, text: column.cell(Math.round(value)) }));
}

/** Marks at numbers of one digit, near others. @param {Column} column @param {import("./charts.js").Tick[]} near */
function roundTicks(column, near) {
  const cells = new Set(near.map(({ value }) => Number(Number(column.cell(value)).toPrecision(1))));
  return Array.from(cells, (cell) => ({ value: column.number(cell), text: number(cell) }));
}

/** Where an input is drawn: its bounds, else where landmarks or own examples are. @param {Column[]} columns @param {number} k @param {Example[]} examples @returns {[number, number]} */
function range(columns, k, examples) {
  const column = columns[k];
  if (column.values.length) return [0, column.values.length - 1];
  const first = columns.slice(0, k).reduce((total, one) => total + one.width, 0);
  const landmarks = (state.release?.landmarks ?? []).map((row) => row[first]);
  const given = column.bounds ?? (landmarks.length ? [] : (state.study?.bounds?.[first] ?? [0, 1]));
  const values = [...given, ...(column.bounds ? [] : landmarks), ...examples.map(({ numbers }) => numbers[k])];
  const [low, high] = [Math.min(...values), Math.max(...values)];
  return low < high ? [low, high] : [low - 1, high + 1];
}

/** @param {Column[]} columns @param {number} k @param {Example[]} examples */
function grid(columns, k, examples) {
  const [low, high] = range(columns, k, examples);
  if (columns[k].values.length) return columns[k].values.map((_, place) => place);
  return Array.from({ length: POINTS }, (_, i) => low + ((high - low) * i) / (POINTS - 1));
}

/** @param {[number, number]} pair */
function mean([low, high]) {
  return (low + high) / 2;
}
