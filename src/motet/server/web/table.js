/** Tables that a visitor types, pastes or drops: CSV read and written; a refusal names row and column. */

/**
 * Rows of cells, with their numbers in the file; commas, semicolons or tabs between them, as the header has them.
 * @param {string} text
 * @returns {{header: string[], rows: {number: number, cells: string[]}[]}}
 */
export function parse(text) {
  const first = text.replace(/^\uFEFF/, "");
  const line = first.split(/\r?\n/, 1)[0];
  const separator = [",", ";", "\t"].reduce((best, mark) => (line.split(mark).length > line.split(best).length ? mark : best));
  const rows = [];
  let cells = [""];
  let quoted = false;
  let number = 1;
  for (let k = 0; k < first.length; k++) {
    const letter = first[k];
    if (quoted) {
      if (letter !== '"') cells[cells.length - 1] += letter;
      else if (first[k + 1] === '"') cells[cells.length - 1] += first[++k];
      else quoted = false;
    } else if (letter === '"' && cells[cells.length - 1].trim() === "") {
      cells[cells.length - 1] = "";
      quoted = true;
    } else if (letter === separator) cells.push("");
    else if (letter === "\n") {
      rows.push({ number: number++, cells });
      cells = [""];
    } else if (letter !== "\r") cells[cells.length - 1] += letter;
  }
  if (quoted) throw new Error(`row ${number}: a quotation mark is opened and not closed`);
  rows.push({ number, cells });
  const written = rows
    .map((row) => ({ number: row.number, cells: row.cells.map((cell) => cell.trim()) }))
    .filter((row) => row.cells.some((cell) => cell !== ""));
  const header = written.shift();
  if (header === undefined) throw new Error("the file is empty: expected a header and a row for each example");
  return { header: header.cells, rows: written };
}

/**
 * The cells of some columns, by name; `optional` ones may be missing, and any other column is refused.
 * @param {string} text
 * @param {string[]} names
 * @param {string[]} optional
 * @returns {{number: number, cells: Record<string, string>}[]}
 */
export function read(text, names, optional = []) {
  const { header, rows } = parse(text);
  const columns = names.map((name) => `"${name}"`).join(", ");
  const missing = names.find((name) => !header.includes(name));
  if (missing !== undefined)
    throw new Error(`row 1: no column "${missing}"; expected ${columns}, got ${header.map((name) => `"${name}"`).join(", ")}`);
  const unknown = header.find((name, k) => ![...names, ...optional].includes(name) || header.indexOf(name) !== k);
  if (unknown !== undefined) throw new Error(`row 1: unexpected column "${unknown}"; expected ${columns}`);
  return rows.map(({ number, cells }) => {
    if (cells.length !== header.length)
      throw new Error(`row ${number}: expected ${header.length} cells, as the header has, got ${cells.length}`);
    return { number, cells: Object.fromEntries(header.map((name, k) => [name, cells[k]])) };
  });
}

/** @param {string[]} header @param {(string | number)[][]} rows */
export function write(header, rows) {
  const cell = (/** @type {string | number} */ value) =>
    /[",;\r\n]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value);
  return [header, ...rows].map((row) => `${row.map(cell).join(",")}\r\n`).join("");
}
