/**
 * All computation, in a thread of its own so that the page never freezes. It makes no request: the page gives it a
 * release, and examples; predictions come back.
 */

import { Columns } from "./columns.js";
import { Disclosed } from "./core/disclosed.js";
import { Matrix } from "./core/matrix.js";

/** @typedef {{rows?: number[][], items?: number[], y: number[], noise?: number[]}} Examples rows, or items of the catalogue */
/** @typedef {{at: number[][] | "catalogue", examples?: Examples | null, coefficients?: any}} Question */

/** @type {Disclosed | null} */
let release = null;
/** Inputs that were asked for last: most often the same again. @type {{key: string, points: any} | null} */
let last = null;

const calls = {
  /** Read a release, and say what the page needs to know of it. @param {ArrayBuffer} data */
  load(data) {
    release = read(data); // or the one that is there stays
    last = null;
    const { spec, dimension, version, policy, digest } = release;
    const { landmarks } = release.basis;
    return {
      version, policy, digest, dimension,
      names: spec.catalogue?.names ?? null,
      columns: spec.columns ?? null,
      landmarks: spec.catalogue ? [] : Array.from({ length: landmarks.rows }, (_, i) => Array.from(landmarks.row(i))),
    };
  },

  /** The average and, with examples or coefficients, the client's own function. @param {Question} question */
  predict({ at, examples = null, coefficients = null }) {
    if (release === null) throw new Error("no release is loaded");
    const points = pointsAt(at);
    const average = release.average(points);
    const estimate =
      examples !== null
        ? release.estimate(Matrix.of(examples.rows ?? items(examples.items ?? []), release.dimension), examples.y, examples.noise)
        : coefficients === null ? null : release.activeEstimate(coefficients);
    if (!average.mean.every(Number.isFinite)) throw new Error("the release gives numbers that are not finite here");
    const influence = examples === null || estimate === null ? null : estimate.influence(points);
    const own = estimate === null ? null : estimate.predict(points);
    return { average, own, influence: influence === null ? null : { rows: influence.rows, data: influence.data } };
  },
};

/** @param {ArrayBuffer} data */
function read(data) {
  try {
    const disclosed = new Disclosed(data);
    Columns.of(disclosed.spec, disclosed.dimension);
    return disclosed;
  } catch (error) {
    const { message } = /** @type {Error} */ (error);
    throw new Error(message.includes("release") ? message : `not a release: ${message}`);
  }
}

/** The rows of some items: the index, then the features. @param {number[]} index */
function items(index) {
  const { vectors } = /** @type {Disclosed} */ (release).spec.catalogue;
  return index.map((item) => [item, ...(vectors[item] ?? [])]);
}

/** @param {number[][] | "catalogue"} at */
function pointsAt(at) {
  const { spec, dimension } = /** @type {Disclosed} */ (release);
  const key = JSON.stringify(at);
  if (last === null || last.key !== key) {
    const rows = at === "catalogue" ? items([...spec.catalogue.names.keys()]) : at;
    last = { key, points: /** @type {Disclosed} */ (release).points(Matrix.of(rows, dimension)) };
  }
  return last.points;
}

self.onmessage = ({ data: { id, call, argument } }) => {
  try {
    self.postMessage({ id, result: /** @type {any} */ (calls)[call](argument) });
  } catch (error) {
    self.postMessage({ id, error: error instanceof Error ? error.message : String(error) });
  }
};
