/**
 * The chart of numeric inputs: the average, and the visitor's own function over it, along one input.
 *
 * With several inputs one selector chooses the input of the horizontal axis and another the input whose values are
 * compared. Every input has a control, preset to the visitor's last example: the curve is drawn there, and the answer at
 * exactly these values stands below it.
 */

import { predict } from "./calculator.js";
import { curves, ticks } from "./charts.js";
import { element, fill, flag } from "./dom.js";
import { inputBounds, inputNumber } from "./limits.js";
import { outputTitle, possible } from "./output.js";
import { state } from "./state.js";
import { count, number } from "./words.js";

/** @typedef {import("./columns.js").Column} Column */
/** @typedef {import("./columns.js").Columns} Columns */
/** @typedef {{numbers: number[], y: number, noise?: number}} Example of one number for each column */

const POINTS = 160; // of a curve
const COMPARED = 8; // values of a category, each with a colour of the style sheet
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
    /** The numbers of the controls, and what they were preset from. @type {number[]} */
    this.at = [];
    this.preset = "";
    this.selectors = element("div", { class: "selectors" });
    this.controls = element("div", { class: "fields" });
    this.answer = element("p", { class: "answer", role: "status" });
    this.chart = element("div", { class: "chart-place" });
    this.note = element("p", { class: "note" });
    this.numbers = element("details", { class: "numbers" }, element("summary", {}, "The numbers"));
    this.root = element("div", { class: "curve-panel" }, this.selectors, this.chart, this.note, this.controls, this.answer, this.numbers);
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
    const xs = grid(release.inputs, this.along, this.#all);
    this.#preset(release.inputs);
    const here = this.at;
    const series = [];
    let answer = null;
    for (const [style, value] of this.#values(release.inputs).entries()) {
      const at = xs.map((x) => {
        const numbers = here.map((one, k) => (k === this.along ? x : k === this.compared ? value : one));
        return release.inputs.expand(numbers);
      });
      at.push(release.inputs.expand(here));
      answer = await predict({ at, examples: this.#asRows(), coefficients: this.coefficients });
      if (turn !== this.turn) return;
      const suffix = this.compared < 0 ? "" : `, ${columns[this.compared].name} = ${shown(columns[this.compared], value)}`;
      const colour = this.compared < 0 ? null : style;
      series.push({ label: `average${suffix}`, kind: /** @type {const} */ ("average"), style: colour, x: xs, ...first(answer.average, xs.length) });
      if (answer.own !== null) series.push({ label: `you${suffix}`, kind: /** @type {const} */ ("own"), style: colour, x: xs, ...first(answer.own, xs.length) });
    }
    series.sort((a, b) => Number(a.kind === "own") - Number(b.kind === "own"));
    const drawn = [this.along, this.compared];
    const inside = this.#all.filter(({ numbers }) => xs[0] <= numbers[this.along] && numbers[this.along] <= xs[xs.length - 1]);
    const dots = inside.map(({ numbers, y }) => ({ x: numbers[this.along], y, faint: numbers.some((one, k) => !drawn.includes(k) && one !== here[k]) }));
    const column = columns[this.along];
    const own = series.some((one) => one.kind === "own");
    const summary = `${outputTitle()} along ${column.name}: the average${own ? " and your own curve" : ""}, with 95 % bands; the numbers are below`;
    const text = (/** @type {number} */ value) => shown(column, value);
    fill(this.chart, curves({ series, dots, xTitle: column.title, yTitle: outputTitle(), xText: text, xTicks: marks(column), width: this.drawn, summary, cut: possible }));
    const values = columns[this.compared]?.values.length ?? 0;
    const outside = this.#all.length - inside.length;
    fill(this.note,
      values > COMPARED ? `${COMPARED} of the ${values} values of ${columns[this.compared].name} are drawn, the one that is chosen below among them. ` : "",
      outside ? `${count(outside, "example lies", "examples lie")} outside the bounds of ${column.name}, and ${outside === 1 ? "is" : "are"} not drawn.` : "");
    if (answer !== null) this.#say(columns, answer);
    this.#list(series, column);
  }

  /** Controls at the last example; before the first one, at a middle value. @param {Columns} inputs */
  #preset(inputs) {
    const { columns } = inputs;
    const last = this.#all.at(-1)?.numbers ?? null;
    const preset = JSON.stringify([last, columns.map((column) => [column.name, column.values])]);
    if (preset === this.preset) return;
    this.preset = preset;
    this.at = last ?? columns.map((column, k) => {
      const value = column.values.length ? 0 : (column.median ?? mean(range(inputs, k, [])));
      return column.since === null ? value : Math.round(value);
    });
    fill(this.controls, ...columns.map((_, k) => this.#control(inputs, k)));
  }

  /** @param {Columns} inputs @param {number} k */
  #control(inputs, k) {
    const column = inputs.columns[k];
    const id = `${this.id}-at-${k}`;
    const value = column.isNumeric ? String(Number(Number(column.cell(this.at[k])).toPrecision(6))) : column.cell(this.at[k]);
    const change = (/** @type {any} */ event) => {
      try {
        const moved = inputNumber(inputs, k, event.target.value);
        flag(event.target, "");
        this.at = this.at.map((one, place) => (place === k ? moved : one));
        void this.draw();
      } catch (error) {
        flag(event.target, /** @type {import("./limits.js").Misfit} */ (error).reason);
      }
    };
    const attributes = { id, change, "aria-label": `Answer at ${column.title}` };
    const control = column.values.length
      ? element("select", attributes, ...column.values.map((one) => element("option", { selected: one === value }, one)))
      : element("input", { ...attributes, value, autocomplete: "off", size: column.since === null ? 8 : 12 });
    return element("span", { class: "field" }, element("label", { for: id }, column.title), control);
  }

  /** The answer at the controls' values. @param {Column[]} columns @param {import("./calculator.js").Answer} answer whose last row is there */
  #say(columns, { average, own }) {
    const where = columns.map((column, k) => `${column.name} ${shown(column, this.at[k])}${column.unit ? ` ${column.unit}` : ""}`).join(", ");
    const value = (/** @type {import("./calculator.js").Prediction} */ { mean: means, std }) => {
      const [at, deviation] = [means[means.length - 1], std?.[means.length - 1]];
      return element("strong", { "data-mean": at, "data-std": deviation }, number(possible(at)) + (deviation === undefined ? "" : ` ± ${number(deviation)}`));
    };
    const parts = own === null ? [`the average ${outputTitle()} is `, value(average)] : [`your ${outputTitle()} is `, value(own), ", the average's ", value(average)];
    fill(this.answer, `At ${where}: `, ...parts, ".");
  }

  /** The values of the compared input, or one that is not used. @param {Columns} inputs */
  #values(inputs) {
    if (this.compared < 0) return [0];
    const { values } = inputs.columns[this.compared];
    const chosen = this.at[this.compared];
    if (values.length) return values.map((_, place) => place).filter((place) => place === chosen || place < COMPARED - Number(chosen >= COMPARED));
    const [low, high] = range(inputs, this.compared, this.#all);
    return [low, (low + high) / 2, high];
  }

  #asRows() {
    if (this.examples.length === 0) return null;
    const { inputs } = /** @type {import("./state.js").LoadedRelease} */ (state.release);
    return { rows: this.examples.map(({ numbers }) => inputs.expand(numbers)), y: this.examples.map(({ y }) => y), noise: this.examples.map(({ noise = 1 }) => noise) };
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
        ...series.map((one) => element("td", { "data-x": one.x[i], "data-mean": one.mean[i], "data-std": one.std?.[i] }, number(possible(one.mean[i])) + (one.std === null ? "" : ` ± ${number(one.std[i])}`)))));
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

/** Where an input is drawn: its bounds, else where landmarks or own examples are. @param {Columns} inputs @param {number} k @param {Example[]} examples @returns {[number, number]} */
function range(inputs, k, examples) {
  const column = inputs.columns[k];
  const [lowest, highest] = inputBounds(inputs, k);
  if (column.values.length) return [lowest, highest];
  const landmarks = column.bounds !== null ? [] : (state.release?.landmarks ?? []).map((row) => row[inputs.firstPlaces[k]]);
  const given = landmarks.length ? landmarks : Number.isFinite(highest - lowest) ? [lowest, highest] : [0, 1];
  const values = [...given, ...examples.map(({ numbers }) => numbers[k])].filter((value) => lowest <= value && value <= highest);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  return low < high ? [low, high] : [low - 1, high + 1];
}

/** @param {Columns} inputs @param {number} k @param {Example[]} examples */
function grid(inputs, k, examples) {
  const { values } = inputs.columns[k];
  if (values.length) return values.map((_, place) => place);
  const [low, high] = range(inputs, k, examples);
  return Array.from({ length: POINTS }, (_, i) => low + ((high - low) * i) / (POINTS - 1));
}

/** The first rows of a prediction. @param {import("./calculator.js").Prediction} prediction @param {number} count */
function first({ mean: means, std }, count) {
  return { mean: means.subarray(0, count), std: std?.subarray(0, count) ?? null };
}

/** @param {[number, number]} pair */
function mean([low, high]) {
  return (low + high) / 2;
}
