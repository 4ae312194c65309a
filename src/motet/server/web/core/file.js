/**
 * A release as bytes: a safetensors file of float64 arrays with a JSON header, as motet/release/file.py writes it.
 *
 * Reading trusts nothing but the connection: what does not parse, or is not finite, is refused.
 */

import { Matrix } from "./matrix.js";

const FORMAT = 1;
const TENSORS = ["landmarks", "redundant", "A", "Lambda", "eta", "theta"];

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
    table = JSON.parse(new TextDecoder().decode(new Uint8Array(data, 8, size)));
    header = JSON.parse(table.__metadata__.motet);
  } catch {
    throw new Error("not a release: expected a file that Motet wrote");
  }
  if (header.format !== FORMAT) throw new Error(`a release of format ${header.format}: this page reads ${FORMAT}`);
  const tensors = Object.fromEntries(TENSORS.map((name) => [name, tensor(data, 8 + size, name, table[name])]));
  return { header, tensors };
}

/** @param {ArrayBuffer} data @param {number} start @param {string} name @param {any} entry */
function tensor(data, start, name, entry) {
  if (entry?.dtype !== "F64") throw new Error(`not a release: expected ${name} as numbers of 64 bits`);
  const [begin, end] = entry.data_offsets;
  const values = new Float64Array(data.slice(start + begin, start + end));
  const [rows, columns] = entry.shape.length === 2 ? entry.shape : [1, entry.shape[0]];
  if (values.length !== rows * columns) throw new Error(`not a release: ${name} has another size than it says`);
  if (!values.every(Number.isFinite)) throw new Error("not a release: it has numbers that are not finite");
  return new Matrix(rows, columns, values);
}
