/**
 * Features of the average task: φ(x) = (e(x), ψ(x)), the same as motet/model/basis.py.
 *
 * A release brings the landmarks and A with e(x) = A u(x), so nothing is built here; u are the kernel's values at the
 * landmarks or, for a linear kernel, (1, x).
 */

import { Matrix, dot, multiplyTransposed } from "./matrix.js";
import { affine, chosenColumns } from "./kernels.js";

/** @typedef {import("./kernels.js").Kernel} Kernel */
/** @typedef {"none" | "constant" | "linear" | number[]} Bias */

const KINDS = ["growing", "landmarks", "eigen", "nystrom", "features"];

export class Basis {
  /**
   * @param {Kernel | null} kernel of the average; null: the bias alone
   * @param {Matrix} landmarks
   * @param {Matrix} A
   * @param {Bias} bias
   * @param {boolean} hasIndex inputs are a catalogue's rows: column 0 is no feature
   * @param {string} kind
   */
  constructor(kernel, landmarks, A, bias, hasIndex, kind) {
    if (!KINDS.includes(kind)) throw new Error(`this page does not know the basis ${JSON.stringify(kind)}`);
    this.kernel = kernel;
    this.landmarks = landmarks;
    this.A = A;
    this.kind = kind;
    /** Columns of an input in which the bias has a slope; null if there is no bias. @type {number[] | null} */
    this.slopes = slopes(bias, hasIndex ? 1 : 0, landmarks.columns);
    this.origin = mean(landmarks);
  }

  get rank() {
    return this.A.rows;
  }

  /** Columns of φ. */
  get size() {
    return this.rank + (this.slopes === null ? 0 : 1 + this.slopes.length);
  }

  /** Whether e(x)ᵀe(x) may be less than K̄(x, x). */
  get hasResidual() {
    return this.kernel !== null && this.kind !== "features";
  }

  /** e(x) for every input. @param {Matrix} X */
  e(X) {
    if (this.rank === 0 || this.kernel === null) return new Matrix(X.rows, 0);
    const u = this.kind === "features" ? affine(X) : this.kernel.gram(X, this.landmarks);
    return multiplyTransposed(u, this.A);
  }

  /** F: a row φ(x) for every input. @param {Matrix} X @param {Matrix} E its features */
  columns(X, E = this.e(X)) {
    const F = new Matrix(X.rows, this.size);
    const psi = this.slopes === null ? new Matrix(X.rows, 0) : affine(chosenColumns(this.#centred(X), this.slopes));
    for (let i = 0; i < X.rows; i++) {
      F.row(i).set(E.row(i));
      F.row(i).set(psi.row(i), this.rank);
    }
    return F;
  }

  /** The residual variance K̄(x, x) − e(x)ᵀe(x). @param {Matrix} X @param {Matrix} E */
  residual(X, E) {
    if (this.kernel === null || !this.hasResidual) return new Float64Array(X.rows);
    return this.kernel.diag(X).map((variance, i) => Math.max(variance - dot(E.row(i), E.row(i)), 0));
  }

  /** @param {Matrix} X */
  #centred(X) {
    return new Matrix(X.rows, X.columns, X.data.map((value, place) => value - this.origin[place % X.columns]));
  }
}

/** @param {Bias} bias @param {number} first @param {number} p */
function slopes(bias, first, p) {
  if (bias === "none") return null;
  if (bias === "constant") return [];
  if (bias === "linear") return Array.from({ length: p - first }, (_, k) => first + k);
  if (!Array.isArray(bias)) throw new Error(`this page does not know the bias ${JSON.stringify(bias)}`);
  return bias;
}

/** @param {Matrix} X */
function mean(X) {
  const total = new Float64Array(X.columns);
  for (let i = 0; i < X.rows; i++) X.row(i).forEach((value, k) => (total[k] += value));
  return total.map((value) => (X.rows ? value / X.rows : 0));
}
