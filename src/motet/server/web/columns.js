/**
 * Inputs as people write them, and the numbers that kernels read: the same as motet/tables/columns.py.
 *
 * A column holds numbers, which may be read by their logarithms, one of some values (a category), or dates. A study without named columns has "x", or "x[0]",
 * "x[1]", … as the server's messages call them.
 */

import { daysSince } from "./dates.js";

/** @typedef {{name: string, bounds?: any[], unit?: string, values?: string[], since?: string, order?: import("./dates.js").DateOrder, log_above?: number, quantiles?: any[]}} ColumnSpec */

const DATE_FORMS = { "": "", "day first": " or 1.3.2024", "month first": " or 3/1/2024" };
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

export class Column {
  /** @param {ColumnSpec} spec */
  constructor(spec) {
    this.name = spec.name;
    this.unit = spec.unit ?? "";
    this.values = spec.values ?? [];
    this.since = spec.since === undefined ? null : Date.parse(`${spec.since}T00:00Z`);
    /** Of dates with the year last. */
    this.order = spec.order ?? "";
    this.logAbove = spec.log_above ?? null;
    /** Of inputs, if the study says how they are spread. @type {number | null} */
    this.median = spec.quantiles === undefined ? null : this.number(spec.quantiles[2]);
    /** @type {[number, number] | null} */
    this.bounds = spec.bounds === undefined ? null : [this.number(spec.bounds[0]), this.number(spec.bounds[1])];
  }

  /** For a heading: "hours (h)". */
  get title() {
    return this.unit ? `${this.name} (${this.unit})` : this.name;
  }

  get isNumeric() {
    return !this.values.length && this.since === null;
  }

  /** How many numbers of a row it becomes. */
  get width() {
    return this.values.length || 1;
  }

  /** What a cell says: its number, the place of its value, or its days. @param {any} cell @returns {number} */
  number(cell) {
    const text = String(cell ?? "").trim();
    const value = this.values.length ? this.values.indexOf(text) : this.since === null ? number(text) : daysSince(text, this.since, this.order);
    if (text !== "" && value !== null && value >= (this.values.length ? 0 : -Infinity)) return this.logAbove === null ? value : Math.asinh(value / this.logAbove);
    const expected = this.values.length
      ? `one of ${this.values.slice(0, 5).join(", ")}`
      : this.since === null ? this.kind : `${this.kind} such as 2024-03-01${DATE_FORMS[this.order]}`;
    throw new Error(`expected ${expected}, got ${text === "" ? "nothing" : JSON.stringify(text)}`);
  }

  get kind() {
    return this.values.length ? "a value" : this.since === null ? "a number" : "a date";
  }

  /** The other way, as text. @param {number} value */
  cell(value) {
    if (this.values.length) return this.values[Math.round(value)];
    if (this.logAbove !== null) return String(Number((this.logAbove * Math.sinh(value)).toPrecision(12)));
    if (this.since === null) return String(value);
    const time = new Date(this.since + 1000 * Math.round(86_400 * value));
    if (Number.isNaN(time.getTime())) return `${value} days`;
    const moment = time.toISOString();
    return moment.endsWith("T00:00:00.000Z") ? moment.slice(0, 10) : moment.slice(0, 19);
  }
}

export class Columns {
  /** @param {ColumnSpec[]} specs */
  constructor(specs) {
    this.columns = specs.map((spec) => new Column(spec));
  }

  /** Of a model, whose inputs have `dimension` numbers. @param {any} model @param {number} dimension */
  static of(model, dimension) {
    const unnamed = Array.from({ length: dimension }, (_, k) => ({ name: dimension === 1 ? "x" : `x[${k}]` }));
    const specs = model.columns ?? unnamed;
    if (!Array.isArray(specs) || !specs.every(isColumn)) throw new Error("expected columns of inputs, each with a name");
    const columns = new Columns(specs);
    const width = columns.columns.reduce((total, column) => total + column.width, 0);
    if (width !== dimension) throw new Error(`expected columns of ${dimension} numbers, got ${width}`);
    return columns;
  }

  /** Where each column's numbers begin in a row. */
  get firstPlaces() {
    return this.columns.map((_, k) => this.columns.slice(0, k).reduce((total, one) => total + one.width, 0));
  }

  /** The row that kernels read, of one number for each column. @param {number[]} numbers */
  expand(numbers) {
    return this.columns.flatMap((column, k) =>
      column.values.length ? column.values.map((_, place) => Number(place === numbers[k])) : [numbers[k] + 0],
    );
  }

  /** The other way. @param {number[]} row */
  collapse(row) {
    let first = 0;
    return this.columns.map((column) => {
      const part = row.slice(first, (first += column.width));
      return column.values.length ? part.indexOf(Math.max(...part)) : part[0];
    });
  }
}

/** Whether a value of JSON describes a column. @param {any} spec */
function isColumn(spec) {
  const { name, unit = "", since = "2000-01-01", order = "", values = [], bounds = [0, 1], quantiles = [0, 1, 2, 3, 4] } = spec ?? {};
  const texts = [name, unit, since, ...(Array.isArray(values) ? values : [null])];
  const isDated = !Number.isNaN(Date.parse(since)) && Object.hasOwn(DATE_FORMS, order);
  return texts.every((text) => typeof text === "string") && isDated && isList(bounds, 2) && isList(quantiles, 5);
}

/** @param {any} list @param {number} length */
function isList(list, length) {
  return Array.isArray(list) && list.length === length;
}

/** A finite number, or null. @param {string} text */
export function number(text) {
  const value = NUMBER.test(text) ? Number(text) : NaN;
  return Number.isFinite(value) && Math.abs(value) < 1e150 ? value : null;
}
