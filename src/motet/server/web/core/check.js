/**
 * What a release must be before anything is computed from it: the checks of motet/release/disclosed.py and of models,
 * and bounds on what one may make this page compute.
 */

import { expect, isCount, isTable } from "./file.js";

/** @typedef {import("./matrix.js").Matrix} Matrix */

const MAX_COLUMNS = 10_000; // of an input
const MAX_SLOPES = 500; // of the bias
const MAX_BASIS = 4_000; // features of the average: a factor of their sums takes half a minute
const MAX_CELLS = 2 ** 27; // features of all items of a catalogue
const MAX_KERNELS = 1_000; // in one model
const MAX_DEPTH = 50; // of kernels in kernels

/** Of a model: one that is not here may change every number. */
const SETTINGS = ["common", "individual", "alpha", "lam", "bias", "basis", "sigma2", "catalogue", "columns"];

/** Numbers of a kernel: each with whether it may be one for every column. @type {Record<string, boolean>} */
const POSITIVE = { length_scale: true, scale: true, nu: false, alpha: false, periodicity: false, value: false };

/** The settings of a release. @param {any} header */
export function checkHeader(header) {
  expect(isCount(header.version), `a version that is a number, got ${brief(header.version)}`);
  expect(["exact", "private"].includes(header.policy), `a policy exact or private, got ${brief(header.policy)}`);
  expect(header.sigma2 === null || (Number.isFinite(header.sigma2) && header.sigma2 >= 0), `sigma2 as a number, got ${brief(header.sigma2)}`);
  const { model } = header;
  expect(isTable(model), "a model");
  for (const key of Object.keys(model)) expect(SETTINGS.includes(key), `a model whose settings this page knows, got ${brief(key)}`);
  expect(Number.isFinite(model.alpha) && model.alpha >= 0 && model.alpha <= 1, `alpha from 0 to 1, got ${brief(model.alpha)}`);
  expect(Number.isFinite(model.lam) && model.lam > 0, `lam above 0, got ${brief(model.lam)}`);
  expect(model.basis === null || (isTable(model.basis) && typeof model.basis.kind === "string"), "a basis");
  expect(Array.isArray(model.bias) ? model.bias.every(isCount) : typeof model.bias === "string", "a bias");
  let kernels = 0;
  for (const kernel of [model.common, model.individual]) if (kernel !== null) kernels += checkKernel(kernel, 0);
  expect(kernels <= MAX_KERNELS, `at most ${MAX_KERNELS} kernels`);
  expect(model.individual !== null, "a kernel of what is the clients' own");
  if (model.catalogue !== null) checkCatalogue(model.catalogue);
}

/** A kernel's numbers, and those of kernels in it; returns how many they are. @param {any} spec @param {number} depth @returns {number} */
function checkKernel(spec, depth) {
  expect(depth <= MAX_DEPTH, `kernels that are nested at most ${MAX_DEPTH} times`);
  expect(isTable(spec), `a kernel, got ${brief(spec)}`);
  for (const [name, several] of Object.entries(POSITIVE)) {
    const value = spec[name];
    if (value === undefined || (name === "nu" && value === "inf")) continue;
    const numbers = several && Array.isArray(value) ? value : [value];
    expect(numbers.every((one) => Number.isFinite(one) && one > 0), `${name} of a kernel above 0, got ${brief(value)}`);
  }
  const { of = [], columns = [] } = spec;
  expect(Array.isArray(columns) && columns.every(isCount), "columns of a kernel that are numbers");
  if (["sum", "product"].includes(spec.kernel)) expect(Array.isArray(of) && of.length > 0, `kernels of a ${spec.kernel}`);
  const parts = Array.isArray(of) ? of : [of];
  return parts.reduce((total, part) => total + checkKernel(part, depth + 1), 1);
}

/** @param {any} catalogue */
function checkCatalogue(catalogue) {
  const { names, vectors } = isTable(catalogue) ? catalogue : { names: null, vectors: null };
  expect(Array.isArray(names) && names.length > 0 && names.every((name) => typeof name === "string"), "a catalogue of names");
  expect(new Set(names).size === names.length, "a catalogue whose names differ");
  expect(Array.isArray(vectors) && [0, names.length].includes(vectors.length), "a catalogue with features for each name");
  expect(vectors.every((row) => Array.isArray(row) && row.length === vectors[0].length && row.every(Number.isFinite)), "features of a catalogue that are numbers");
}

/**
 * Arrays that fit the model, and are not too large for a browser.
 * @param {any} model
 * @param {Record<string, Matrix>} tensors
 */
export function checkSizes(model, { landmarks, redundant, A, Lambda, eta, theta }) {
  const { catalogue, bias, common } = model;
  const p = landmarks.columns;
  expect(p > 0 && p <= MAX_COLUMNS, `inputs of 1 to ${MAX_COLUMNS} columns, got ${p}`);
  expect(redundant.columns === p, "inputs of one dimension");
  if (catalogue !== null) expect(p === 1 + (catalogue.vectors[0]?.length ?? 0), "inputs that are the catalogue's");
  expect(!Array.isArray(bias) || bias.every((column) => column < p), `a bias of the ${p} columns of an input`);
  const slopes = Array.isArray(bias) ? bias.length : bias === "linear" ? p - (catalogue === null ? 0 : 1) : 0;
  expect(slopes <= MAX_SLOPES, `at most ${MAX_SLOPES} slopes of the bias, got ${slopes}`);
  const size = A.rows + (bias === "none" ? 0 : 1 + slopes);
  expect(A.rows <= MAX_BASIS, `a basis of at most ${MAX_BASIS} features, got ${A.rows}`);
  expect(A.columns === (model.basis?.kind === "features" ? p + 1 : landmarks.rows), "features that fit the landmarks");
  expect(common !== null || A.rows === 0, "no features without a kernel of the average");
  expect(Lambda.rows === size && Lambda.columns === size && eta.columns === size && theta.columns === size, "sums that fit the basis");
  expect((catalogue?.names.length ?? 0) * size <= MAX_CELLS, "a smaller catalogue, or fewer features");
}

/** A value in a message. @param {any} value */
function brief(value) {
  return ["string", "number", "boolean"].includes(typeof value) ? JSON.stringify(value).slice(0, 30) : typeof value;
}
