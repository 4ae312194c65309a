/**
 * Examples as a visitor enters them: fields by the names of the study's inputs, checked as they are read.
 *
 * Before the first release the inputs are those of the study's description.
 */

import { Columns } from "./columns.js";
import { json } from "./connection.js";
import { element, flag } from "./dom.js";
import { Misfit, inputNumber, noiseNumber, outputNumber } from "./limits.js";
import { outputTitle } from "./output.js";
import { state, target } from "./state.js";
import { read, write } from "./table.js";

/** @typedef {{cells: Record<string, string>, y: number, noise?: number}} Example cells by the inputs' names; a catalogue's item has the one "name" */
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

/** The column of a catalogue's items. */
function itemColumn() {
  return state.study?.table?.name ?? "name";
}

/** The column of clients. @param {string[]} header */
function clientColumn(header) {
  const { client = "client" } = state.study?.table ?? {};
  return [client, "client"].find((name) => header.includes(name) && !inputNames().includes(name)) ?? null;
}

/** The columns of a table of examples, without the output. */
export function inputNames() {
  const known = inputs();
  return known === null ? [] : known.names !== null ? [itemColumn()] : known.inputs.columns.map((column) => column.name);
}

/** The cells of an example in the order of `inputNames`. @param {Example} given */
export function inputCells({ cells }) {
  return inputs()?.names ? [cells.name] : inputNames().map((name) => cells[name]);
}

/** Refuse cells that are no input, or that lie outside of what the study accepts. @param {Record<string, string>} cells */
function check(cells) {
  const known = inputs();
  if (known === null) throw new Error("the study's inputs are not known yet");
  if (known.names === null) known.inputs.columns.forEach((column, k) => inputNumber(known.inputs, k, cells[column.name]));
  else if (!known.names.includes(cells.name)) throw new Misfit(itemColumn(), `${JSON.stringify(cells.name)} is not in the catalogue`);
}

/** Why an example cannot be used: one that a browser or the server has kept may be of another study. Empty if it can. @param {Example} example */
export function misfit({ cells, y, noise = 1 }) {
  try {
    check(cells);
    outputNumber(y);
    noiseNumber(noise);
    return "";
  } catch (error) {
    return /** @type {Error} */ (error).message;
  }
}

/** One number for each column. @param {Record<string, string>} cells */
export function numbers(cells) {
  return /** @type {Inputs} */ (inputs()).inputs.columns.map((column) => column.number(cells[column.name]));
}

/** An example from cells by the study's columns; without a noise it has the usual one, 1. @param {Record<string, string>} all @returns {Example} */
function example(all) {
  const cells = inputs()?.names ? { name: all[itemColumn()] } : Object.fromEntries(inputNames().map((name) => [name, all[name]]));
  check(cells);
  const y = outputNumber(all[target()]);
  const noise = reserved("noise") && all.noise ? noiseNumber(all.noise) : 1;
  return noise === 1 ? { cells, y } : { cells, y, noise };
}

/** Whether a column of this name is what it is in every study, and not one of this study's. @param {"id" | "noise"} name */
function reserved(name) {
  return ![...inputNames(), target(), state.study?.table?.client].includes(name);
}

/**
 * Examples from CSV, all or none, and the columns that are of no use.
 * @param {string} text @returns {{examples: Example[], unused: string[]}}
 */
export function fromTable(text) {
  const needed = [...inputNames(), target()];
  const { header, rows } = read(text, needed);
  if (rows.length === 0) throw new Error("the file has a header, and no example");
  const owners = clientColumn(header);
  const clients = owners === null ? [] : Array.from(new Set(rows.map(({ cells }) => cells[owners])));
  if (clients.length > 1)
    throw new Error(`column "${owners}" has ${clients.length} clients, ${clients.slice(0, 3).map((one) => JSON.stringify(one)).join(", ")}${clients.length > 3 ? " and others" : ""}: leave the rows of one`);
  const examples = rows.map(({ number: row, cells }) => {
    try {
      return example(cells);
    } catch (error) {
      throw new Error(`row ${row}, ${/** @type {Error} */ (error).message}`);
    }
  });
  return { examples, unused: header.filter((name) => ![...needed, owners, "id", "noise"].includes(name)) };
}

/** Examples as CSV, with id and noise if they are the server's, or if the noise is not the usual; `fromTable` reads it. @param {(Example & {id?: string})[]} examples */
export function toTable(examples) {
  const ids = examples.some((one) => one.id !== undefined) && reserved("id");
  const noise = examples.some((one) => one.id !== undefined || (one.noise ?? 1) !== 1) && reserved("noise");
  const header = [...(ids ? ["id"] : []), ...inputNames(), target(), ...(noise ? ["noise"] : [])];
  return write(header, examples.map((one) => [...(ids ? [one.id ?? ""] : []), ...inputCells(one), one.y, ...(noise ? [one.noise ?? 1] : [])]));
}

// --- fields ---

/** Fields for one example, with ids that begin with `prefix`. @param {string} prefix @param {Example} [given] */
export function fields(prefix, given) {
  const known = inputs();
  if (known === null) return [];
  const asked = known.names !== null
    ? [field(prefix, itemColumn(), itemColumn(), [], given?.cells.name, known.names)]
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

/** What the fields of a form say; null if the study does not accept it, which is then said at the field. @param {HTMLFormElement} form @returns {Example | null} */
export function fromForm(form) {
  const controls = /** @type {HTMLInputElement[]} */ (Array.from(form.elements).filter((one) => one.hasAttribute("name")));
  controls.forEach((control) => flag(control, ""));
  try {
    return example(Object.fromEntries(controls.map(({ name, value }) => [name, value.trim()])));
  } catch (error) {
    const control = error instanceof Misfit ? controls.find(({ name }) => name === error.column) : undefined;
    if (control === undefined) throw error;
    flag(control, /** @type {Misfit} */ (error).reason);
    control.focus();
    return null;
  }
}

// --- as the server has them ---

/** @param {Example} given */
export function toBody({ cells, y }) {
  const known = /** @type {Inputs} */ (inputs());
  if (known.names !== null) return { x: cells.name, y };
  if (!known.named) return { x: numbers(cells), y };
  const named = known.inputs.columns.map((column) => {
    const cell = column.cell(column.number(cells[column.name])); // of a date, in ISO 8601
    return [column.name, column.isNumeric ? Number(cell) : cell];
  });
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
