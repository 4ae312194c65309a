/**
 * A release as bytes: a safetensors file of float64 arrays with a JSON header, as motet/release/file.py writes it.
 *
 * Reading trusts nothing: sizes are compared with the bytes that are there before anything is made of them, and what
 * does not parse, or is not finite, is refused.
 */

import { Matrix } from "./matrix.js";

const FORMAT = 1;
const TENSORS = ["landmarks", "redundant", "A", "Lambda", "eta", "theta"];
const MAX_HEADER_BYTES = 100_000_000; // as safetensors has it
const MAX_SIDE = 50_000; // rows or columns of a table: without rows, columns take no bytes

/** Raises unless it holds. @param {boolean} holds @param {string} what @returns {asserts holds} */
export function expect(holds, what) {
  if (!holds) throw new Error(`not a release: expected ${what}`);
}

/**
 * The header, and the arrays as tables; a vector is a table of one row.
 * @param {ArrayBuffer} data
 * @returns {{header: any, tensors: Record<string, Matrix>}}
 */
export function unpack(data) {
  let size = 0;
  let table;
  let header;
  try {
    size = Number(new DataView(data).getBigUint64(0, true));
    expect(size <= MAX_HEADER_BYTES, "a smaller header");
    table = JSON.parse(new TextDecoder().decode(new Uint8Array(data, 8, size)));
    header = JSON.parse(table.__metadata__.motet);
    delete table.__metadata__;
  } catch {
    throw new Error("not a release: expected a file that Motet wrote");
  }
  expect(isTable(header), "a header");
  if (header.format !== FORMAT) throw new Error(`a release of format ${String(header.format).slice(0, 20)}: this page reads ${FORMAT}`);
  expect(Object.keys(table).sort().join() === [...TENSORS].sort().join(), `the arrays ${TENSORS.join(", ")}`);
  const ends = TENSORS.map((name) => range(name, table[name])).sort(([a, b], [c, d]) => a - c || b - d);
  const last = ends.reduce((place, [begin, end]) => (begin === place ? end : NaN), 0);
  expect(last === data.byteLength - 8 - size, "arrays that follow each other and fill the file");
  const tensors = Object.fromEntries(TENSORS.map((name) => [name, tensor(data, 8 + size, name, table[name])]));
  return { header, tensors };
}

/** Whether a value of JSON is an object. @param {any} value */
export function isTable(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A whole number from 0 on, to the last digit. @param {any} value */
export function isCount(value) {
  return Number.isSafeInteger(value) && value >= 0;
}

/** Where an array lies, once it is known to be as long as its shape says. @param {string} name @param {any} entry @returns {[number, number]} */
function range(name, entry) {
  expect(entry?.dtype === "F64", `${name} as numbers of 64 bits`);
  const { shape, data_offsets: offsets } = entry;
  const dimensions = name === "eta" || name === "theta" ? 1 : 2;
  expect(Array.isArray(shape) && shape.length === dimensions && shape.every(isCount), `${name} with a shape of ${dimensions}`);
  expect(Array.isArray(offsets) && offsets.length === 2 && offsets.every(isCount), `${name} with two offsets`);
  const [rows, columns] = dimensions === 2 ? shape : [1, shape[0]];
  expect(Math.max(rows, columns) <= MAX_SIDE, `${name} of at most ${MAX_SIDE} rows and columns`);
  expect(offsets[1] - offsets[0] === 8 * rows * columns, `${name} of the size that it says`);
  return [offsets[0], offsets[1]];
}

/** @param {ArrayBuffer} data @param {number} start @param {string} name @param {any} entry */
function tensor(data, start, name, entry) {
  const [begin, end] = entry.data_offsets;
  const values = new Float64Array(data.slice(start + begin, start + end));
  expect(values.every(Number.isFinite), `finite numbers: those of ${name} are not finite`);
  const [rows, columns] = entry.shape.length === 2 ? entry.shape : [1, entry.shape[0]];
  return new Matrix(rows, columns, values);
}
