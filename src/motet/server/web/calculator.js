/** The page's side of the worker: calls that return promises. */

const worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
/** @type {Map<number, {resolve: (value: any) => void, reject: (error: Error) => void}>} */
const waiting = new Map();
let number = 0;

worker.onmessage = (/** @type {MessageEvent} */ { data: { id, result, error } }) => {
  const one = waiting.get(id);
  waiting.delete(id);
  note();
  if (error === undefined) one?.resolve(result);
  else one?.reject(new Error(error));
};

/** A worker that broke answers nothing more. @param {Event} event */
worker.onerror = (event) => {
  event.preventDefault();
  for (const { reject } of waiting.values()) reject(new Error("the computation stopped: open this page again"));
  waiting.clear();
  note();
};

/** @typedef {{version: number, policy: string, digest: string, dimension: number, names: string[] | null, columns: any[] | null, landmarks: number[][]}} Release */
/** @typedef {{mean: Float64Array, std: Float64Array | null}} Prediction */
/** @typedef {{average: Prediction, own: Prediction | null, influence: {rows: number, data: Float64Array} | null}} Answer */

/** Whoever drives the page can see when nothing is left to compute. */
function note() {
  document.documentElement.dataset.waiting = String(waiting.size);
}

/** @param {string} call @param {any} argument @param {Transferable[]} [transfer] @returns {Promise<any>} */
function ask(call, argument, transfer = []) {
  return new Promise((resolve, reject) => {
    waiting.set(++number, { resolve, reject });
    note();
    worker.postMessage({ id: number, call, argument }, transfer);
  });
}

/** @param {ArrayBuffer} data @returns {Promise<Release>} */
export function load(data) {
  return ask("load", data, [data]);
}

/** @param {import("./worker.js").Question} question @returns {Promise<Answer>} */
export function predict(question) {
  return ask("predict", question);
}
