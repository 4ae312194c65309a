/**
 * The kernels of the closed list, from their JSON: the same as motet/kernels/formulas.py and motet/kernels/spec.py.
 *
 * A kernel evaluates two tables of inputs, `gram(X, Y)`, and its variance at each input, `diag(X)`. A name that is not
 * in the list is refused.
 */

import { Matrix, dot, multiply, multiplyTransposed } from "./matrix.js";

/** @typedef {{gram: (X: Matrix, Y: Matrix) => Matrix, diag: (X: Matrix) => Float64Array}} Kernel */
/** @typedef {{kernel: string, columns?: number[], of?: any, [name: string]: any}} KernelSpec */
/** @typedef {Float64Array} Row */

const EPSILON = 2 ** -52;

/** @type {Record<string, (spec: KernelSpec) => Kernel>} */
const KERNELS = {
  rbf: (spec) => stationary(scaling(spec.length_scale), (d2) => Math.exp(-0.5 * d2)),
  matern: (spec) => stationary(scaling(spec.length_scale), matern(spec.nu)),
  rational_quadratic: ({ alpha, length_scale }) =>
    stationary(null, (d2) => (1 + d2 / (2 * alpha * length_scale ** 2)) ** -alpha),
  exp_sine_squared: ({ length_scale, periodicity }) =>
    stationary(null, (d2) => Math.exp(-2 * (Math.sin((Math.PI / periodicity) * Math.sqrt(d2)) / length_scale) ** 2)),
  dot_product: ({ sigma_0 }) => ofPairs((x, y) => dot(x, y) + sigma_0 ** 2),
  constant: ({ value }) => ofPairs(() => value),
  identity: () => ofPairs((x, y) => Number(x.every((value, k) => value === y[k]))),
  linear: ({ covariance }) => linear(Matrix.of(covariance, covariance.length)),
  sum: ({ of }) => of.map(kernelOf).reduce(combined((a, b) => a + b)),
  product: ({ of }) => of.map(kernelOf).reduce(combined((a, b) => a * b)),
  power: ({ of, exponent }) => mapped(kernelOf(of), (value) => value ** exponent),
  scaled: ({ of, center, scale }) =>
    reading(kernelOf(of), (X) => columnwise(X, (value, k) => (value - center[k]) / scale[k])),
};

/** The kernel of a spec. @param {KernelSpec} spec @returns {Kernel} */
export function kernelOf(spec) {
  const make = Object.hasOwn(KERNELS, spec.kernel) ? KERNELS[spec.kernel] : null;
  if (make === null) throw new Error(`this page does not know the kernel ${JSON.stringify(spec.kernel)}`);
  const kernel = make(spec);
  const { columns } = spec;
  return columns === undefined ? kernel : reading(kernel, (X) => chosenColumns(X, columns));
}

/** (1, x) for every row. @param {Matrix} X */
export function affine(X) {
  const result = new Matrix(X.rows, X.columns + 1);
  for (let i = 0; i < X.rows; i++) {
    result.row(i)[0] = 1;
    result.row(i).set(X.row(i), 1);
  }
  return result;
}

/** @param {Matrix} X @param {number[]} columns */
export function chosenColumns(X, columns) {
  const result = new Matrix(X.rows, columns.length);
  for (let i = 0; i < X.rows; i++) columns.forEach((column, k) => (result.row(i)[k] = X.row(i)[column]));
  return result;
}

// --- how kernels are made ---

/** @param {(x: Row, y: Row, same: boolean) => number} value @returns {Kernel} */
function ofPairs(value) {
  return {
    gram(X, Y) {
      const K = new Matrix(X.rows, Y.rows);
      const rows = Array.from({ length: Y.rows }, (_, j) => Y.row(j));
      for (let i = 0; i < X.rows; i++) {
        const x = X.row(i);
        for (let j = 0; j < Y.rows; j++) K.data[i * Y.rows + j] = value(x, rows[j], X === Y && i === j);
      }
      return K;
    },
    diag: (X) => Float64Array.from({ length: X.rows }, (_, i) => value(X.row(i), X.row(i), true)),
  };
}

/**
 * A function of squared distance, of inputs that are scaled first.
 * @param {((X: Matrix) => Matrix) | null} read
 * @param {(squared: number, same: boolean) => number} value
 */
function stationary(read, value) {
  const kernel = ofPairs((x, y, same) => {
    let squared = 0;
    for (let k = 0; k < x.length; k++) squared += (x[k] - y[k]) ** 2;
    return value(squared, same);
  });
  return read === null ? kernel : reading(kernel, read);
}

/** Inputs divided by one length, or by one for each column. @param {number | number[]} length */
function scaling(length) {
  return (/** @type {Matrix} */ X) =>
    columnwise(X, (value, k) => value / (typeof length === "number" ? length : length[k]));
}

/** @param {Matrix} X @param {(value: number, column: number) => number} change */
function columnwise(X, change) {
  return new Matrix(X.rows, X.columns, X.data.map((value, place) => change(value, place % X.columns)));
}

/** A kernel of what `read` makes of the inputs. @param {Kernel} kernel @param {(X: Matrix) => Matrix} read @returns {Kernel} */
function reading(kernel, read) {
  return {
    gram(X, Y) {
      const Z = read(X);
      return kernel.gram(Z, X === Y ? Z : read(Y));
    },
    diag: (X) => kernel.diag(read(X)),
  };
}

/** @param {Kernel} kernel @param {(value: number) => number} change @returns {Kernel} */
function mapped(kernel, change) {
  return {
    gram(X, Y) {
      const K = kernel.gram(X, Y);
      return new Matrix(K.rows, K.columns, K.data.map(change));
    },
    diag: (X) => kernel.diag(X).map(change),
  };
}

/** @param {(a: number, b: number) => number} operation */
function combined(operation) {
  return (/** @type {Kernel} */ first, /** @type {Kernel} */ second) => ({
    gram(/** @type {Matrix} */ X, /** @type {Matrix} */ Y) {
      const [K, other] = [first.gram(X, Y), second.gram(X, Y).data];
      return new Matrix(K.rows, K.columns, K.data.map((value, k) => operation(value, other[k])));
    },
    diag(/** @type {Matrix} */ X) {
      const other = second.diag(X);
      return first.diag(X).map((value, k) => operation(value, other[k]));
    },
  });
}

/** (1, x)ᵀ C (1, x′). @param {Matrix} C @returns {Kernel} */
function linear(C) {
  return {
    gram: (X, Y) => multiplyTransposed(multiply(affine(X), C), affine(Y)),
    diag(X) {
      const U = affine(X);
      const UC = multiply(U, C);
      return Float64Array.from({ length: X.rows }, (_, i) => dot(UC.row(i), U.row(i)));
    },
  };
}

// --- Matérn ---

/** @param {number | "inf"} nu @returns {(squared: number, same: boolean) => number} */
function matern(nu) {
  if (nu === "inf") return (d2) => Math.exp(-0.5 * d2);
  if (nu === 0.5) return (d2) => Math.exp(-Math.sqrt(d2));
  if (nu === 1.5) return (d2) => polynomial(Math.sqrt(3 * d2), 0);
  if (nu === 2.5) return (d2) => polynomial(Math.sqrt(5 * d2), 1 / 3);
  // scikit-learn takes a distance of 0 for one of ε, unless an input meets itself.
  return (d2, same) => (same ? 1 : bessel(nu, Math.sqrt(2 * nu) * (Math.sqrt(d2) || EPSILON)));
}

/** (1 + z + c z²) e^-z. @param {number} z @param {number} c */
function polynomial(z, c) {
  return (1 + z + c * z * z) * Math.exp(-z);
}

const STEP = 0.1; // of the integrals below: the trapezoidal rule is exact to rounding for them

/**
 * z^ν K_ν(z) 2^(1−ν) / Γ(ν), with K_ν(z) = ∫ exp(−z cosh t) cosh νt dt from 0 to ∞.
 * @param {number} nu
 * @param {number} z
 */
function bessel(nu, z) {
  if (z === Infinity) return 0;
  const factor = nu * Math.log(z) - nu * Math.LN2 - logGamma(nu);
  let total = 0;
  for (let k = 0; ; k++) {
    const t = k * STEP;
    const exponent = factor + nu * t - z * Math.cosh(t);
    total += (k === 0 ? 0.5 : 1) * Math.exp(exponent) * (1 + Math.exp(-2 * nu * t));
    if (Number.isNaN(exponent)) return NaN;
    if (z * Math.sinh(t) > nu && exponent < -45) return total * STEP; // behind the maximum, and below rounding
  }
}

/** @type {Map<number, number>} */
const logGammas = new Map();

/** log Γ(ν), from Γ(ν) = Γ(ν + 1)/ν and Γ(a) = ∫ exp(au − e^u) du. @param {number} nu */
function logGamma(nu) {
  const known = logGammas.get(nu);
  if (known !== undefined) return known;
  const largest = (nu + 1) * Math.log(nu + 1) - (nu + 1); // of the exponent
  let total = 0;
  for (let u = -45; u < 10; u += STEP) total += Math.exp((nu + 1) * u - Math.exp(u) - largest);
  const value = Math.log(total * STEP) + largest - Math.log(nu);
  logGammas.set(nu, value);
  return value;
}
