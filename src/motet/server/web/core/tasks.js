/**
 * One task: its examples without repeats, the kernel of its shift, and their covariance, as motet/model/tasks.py.
 */

import { Matrix, dot, inverse, multiply } from "./matrix.js";

/** @typedef {import("./kernels.js").Kernel} Kernel */
/** @typedef {import("./basis.js").Basis} Basis */

/** The same text for equal inputs (so −0 is 0). @param {Float64Array} row */
export function rowKey(row) {
  return row.join();
}

/** Examples without repeated inputs: repeats become w̄ = (Σ 1/wᵢ)⁻¹, ȳ = w̄ Σ yᵢ/wᵢ. */
export class Task {
  /** @param {Matrix} X @param {Float64Array} y @param {Float64Array} noise */
  constructor(X, y, noise) {
    this.X = X;
    this.y = y;
    this.noise = noise;
  }

  /** From raw examples, which may repeat inputs. @param {Matrix} X @param {ArrayLike<number>} y @param {ArrayLike<number>} [noise] */
  static of(X, y, noise = new Float64Array(X.rows).fill(1)) {
    /** @type {Map<string, number[]>} */
    const groups = new Map();
    for (let i = 0; i < X.rows; i++) {
      const key = rowKey(X.row(i));
      groups.set(key, [...(groups.get(key) ?? []), i]);
    }
    const rows = [...groups.values()];
    const folded = rows.map((group) => {
      if (group.length === 1) return [y[group[0]], noise[group[0]]];
      const precision = group.reduce((total, i) => total + 1 / noise[i], 0);
      return [group.reduce((total, i) => total + y[i] / noise[i], 0) / precision, 1 / precision];
    });
    return new Task(
      X.take(rows.map((group) => group[0])),
      Float64Array.from(folded, ([value]) => value),
      Float64Array.from(folded, ([, variance]) => variance),
    );
  }

  get size() {
    return this.y.length;
  }
}

/**
 * A task's own part, with kernel individualShare · K̃ + commonShare · (K̄ − eᵀe), and its noise, of variance λw.
 *
 * The residual of the basis is each task's own; at `spanned` inputs a growing basis has none.
 */
export class Shift {
  /**
   * @param {Kernel} kernel
   * @param {{individualShare: number, commonShare: number, lam: number}} model
   * @param {Basis | null} basis
   * @param {Set<string>} spanned
   */
  constructor(kernel, model, basis, spanned = new Set()) {
    this.kernel = kernel;
    this.model = model;
    this.basis = basis !== null && basis.hasResidual ? basis : null;
    this.spanned = spanned;
  }

  /** Between inputs; E and D are their features. @param {Matrix} X @param {Matrix} Y @param {Matrix} E @param {Matrix} D */
  gram(X, Y, E, D) {
    const K = this.kernel.gram(X, Y);
    const { individualShare: share, commonShare } = this.model;
    const unspanned = (/** @type {Matrix} */ Z) =>
      Array.from({ length: Z.rows }, (_, i) => this.basis !== null && !this.spanned.has(rowKey(Z.row(i))));
    const columns = unspanned(Y);
    const rows = X === Y ? columns : null;
    const kernel = this.basis === null || !columns.includes(true) ? null : this.basis.kernel;
    const common = kernel === null ? null : kernel.gram(X, Y);
    for (let i = 0; i < X.rows; i++)
      for (let j = 0; j < Y.rows; j++) {
        const place = i * Y.rows + j;
        K.data[place] *= share;
        if (common !== null && columns[j] && (rows === null || rows[i]))
          K.data[place] += commonShare * (common.data[place] - dot(E.row(i), D.row(j)));
      }
    return K;
  }

  /** (Rʲ)⁻¹ = K + λ diag w̄ʲ. @param {Task} task @param {Matrix} E */
  covariance(task, E) {
    const K = this.gram(task.X, task.X, E, E);
    for (let i = 0; i < task.size; i++) K.row(i)[i] += this.model.lam * task.noise[i];
    return K;
  }

  /** Λʲ = FᵀRF, and RF. @param {Task} task @param {Matrix} E @param {Matrix} F */
  information(task, E, F) {
    const RF = multiply(inverse(this.covariance(task, E)), F);
    return { Lambda: multiply(F.transposed, RF), RF };
  }

  /** The variance of the own part. @param {Matrix} X @param {Float64Array} residual of the average */
  variance(X, residual) {
    return this.kernel.diag(X).map((variance, i) => this.model.individualShare * variance + residual[i]);
  }
}
