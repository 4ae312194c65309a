/**
 * Tables that a visitor types, pastes or drops: CSV read and written, as motet/tables/files.py does it; a refusal names row and
 * column.
 */

/** @typedef {{number: number, cells: string[]}} Row with its number in the file */

const SEPARATORS = { ",": "commas", ";": "semicolons", "\t": "tabs" };
const POINT_NUMBER = /^\s*[+-]?\d*\.\d+(e[+-]?\d+)?\s*$/i;
const COMMA_NUMBER = /^\s*[+-]?\d*,\d+(e[+-]?\d+)?\s*$/i;

/** The text of a file, in UTF-8 or in UTF-16 as Excel writes it. @param {Blob} file */
export async function decoded(file) {
  const data = new Uint8Array(await file.arrayBuffer());
  const mark = data[0] === 0xff && data[1] === 0xfe ? "utf-16le" : data[0] === 0xfe && data[1] === 0xff ? "utf-16be" : "utf-8";
  try {
    return new TextDecoder(mark, { fatal: true }).decode(data);
  } catch {
    throw new Error("expected text in UTF-8; save it as that (CSV UTF-8)");
  }
}

/**
 * A header and rows of cells, between which there are commas, semicolons or tabs, whichever the header has most of.
 * Semicolons allow decimal commas.
 * @param {string} text
 * @returns {{header: string[], rows: Row[]}}
 */
export function parse(text) {
  const whole = text.replace(/^\uFEFF/, "");
  const separator = separatorOf(whole);
  const rows = split(whole, separator)
    .map((row) => ({ number: row.number, cells: row.cells.map((cell) => cell.trim()) }))
    .filter((row) => row.cells.some((cell) => cell !== ""));
  const header = rows.shift()?.cells;
  if (header === undefined) throw new Error("the file is empty: expected a header and a row for each example");
  for (const { number, cells } of rows)
    if (cells.length !== header.length)
      throw new Error(`row ${number}: expected ${header.length} cells, as the header has, got ${cells.length}; cells with ${SEPARATORS[separator]} need quotation marks`);
  const read = separator === ";" ? withPoints(rows) : rows;
  if (header.length < 2 || header[0] !== "") return { header, rows: read };
  return { header: header.slice(1), rows: read.map(({ number, cells }) => ({ number, cells: cells.slice(1) })) }; // R's and pandas' index
}

/** @param {string} text */
function separatorOf(text) {
  const header = text.trimStart().split(/[\r\n]/, 1)[0].replace(/"[^"]*"/g, "");
  const marks = /** @type {(keyof typeof SEPARATORS)[]} */ (Object.keys(SEPARATORS));
  return marks.reduce((best, mark) => (header.split(mark).length > header.split(best).length ? mark : best));
}

/** @param {string} text @param {string} separator */
function split(text, separator) {
  /** @type {Row[]} */
  const rows = [];
  let cells = [""];
  let quoted = false;
  let number = 1;
  for (let k = 0; k < text.length; k++) {
    const letter = text[k];
    if (quoted) {
      if (letter !== '"') cells[cells.length - 1] += letter;
      else if (text[k + 1] === '"') cells[cells.length - 1] += text[++k];
      else quoted = false;
    } else if (letter === '"' && cells[cells.length - 1].trim() === "") {
      cells[cells.length - 1] = "";
      quoted = true;
    } else if (letter === separator) cells.push("");
    else if (letter === "\n" || letter === "\r") {
      if (letter === "\r" && text[k + 1] === "\n") k++;
      rows.push({ number: number++, cells });
      cells = [""];
    } else cells[cells.length - 1] += letter;
  }
  if (quoted) throw new Error(`row ${number}: a quotation mark is opened and not closed`);
  rows.push({ number, cells });
  return rows;
}

/** Rows in which 3,5 is a number, unless another cell writes numbers with a point. @param {Row[]} rows */
function withPoints(rows) {
  if (rows.some(({ cells }) => cells.some((cell) => POINT_NUMBER.test(cell)))) return rows;
  return rows.map(({ number, cells }) => ({ number, cells: cells.map((cell) => (COMMA_NUMBER.test(cell) ? cell.replace(",", ".") : cell)) }));
}

/**
 * The cells by the names of their columns, of which some are needed.
 * @param {string} text
 * @param {string[]} needed
 * @returns {{header: string[], rows: {number: number, cells: Record<string, string>}[]}}
 */
export function read(text, needed) {
  const { header, rows } = parse(text);
  const listed = (/** @type {string[]} */ names) => names.map((name) => `"${name}"`).join(", ");
  const nameless = header.indexOf("");
  if (nameless >= 0) throw new Error(`row 1: column ${nameless + 1} has no name; name it, or write the table without its index`);
  const twice = header.find((name, k) => header.indexOf(name) !== k);
  if (twice !== undefined) throw new Error(`row 1: column "${twice}" is there twice; rename one of them`);
  const missing = needed.filter((name) => !header.includes(name));
  if (missing.length) throw new Error(`row 1: no column ${listed(missing)}; expected ${listed(needed)}, got ${listed(header)}`);
  return { header, rows: rows.map(({ number, cells }) => ({ number, cells: Object.fromEntries(header.map((name, k) => [name, cells[k]])) })) };
}

/** @param {string[]} header @param {(string | number)[][]} rows */
export function write(header, rows) {
  const cell = (/** @type {string | number} */ value) =>
    /[",;\t\r\n]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value);
  return [header, ...rows].map((row) => `${row.map(cell).join(",")}\r\n`).join("");
}
