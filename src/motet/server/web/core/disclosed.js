/**
 * The disclosed database, and one client's estimate from it: the same as motet/release/disclosed.py and estimates.py.
 *
 * A passive client brings its examples, which never leave this process (Algorithm 7); an active one brings the
 * coefficients that the server computed for it (Algorithm 6).
 */

import { Matrix, add, apply, applyTransposed, dot, inverse, multiply, solveLower, solveLowerTransposed, sum } from "./matrix.js";
import { Basis } from "./basis.js";
import { checkHeader, checkSizes } from "./check.js";
import { expect, unpack } from "./file.js";
import { kernelOf } from "./kernels.js";
import { Factor, condition, whitenedVariance } from "./posterior.js";
import { Shift, Task, rowKey } from "./tasks.js";

/** @typedef {import("./kernels.js").Kernel} Kernel */
/** @typedef {{mean: Float64Array, std: Float64Array | null}} Prediction std is null if the release has no σ² */

/** One release: all that anyone needs of the others. */
export class Disclosed {
  /** @param {ArrayBuffer} data */
  constructor(data) {
    const { header, tensors } = unpack(data);
    checkHeader(header);
    const spec = header.model;
    checkSizes(spec, tensors);
    const { landmarks, A, Lambda } = tensors;
    this.spec = spec;
    /** @type {string} */
    this.digest = header.sha256;
    /** @type {number} */
    this.version = header.version;
    /** @type {"exact" | "private"} */
    this.policy = header.policy;
    /** @type {number | null} */
    this.sigma2 = header.sigma2;
    const alone = spec.common === null;
    this.model = { commonShare: alone ? 1 : spec.alpha, individualShare: alone ? 1 : 1 - spec.alpha, lam: spec.lam };
    this.individual = kernelOf(spec.individual);
    const kind = spec.basis === null ? "growing" : spec.basis.kind;
    const common = alone ? null : kernelOf(spec.common);
    this.basis = new Basis(common, landmarks, A, spec.bias, spec.catalogue !== null, kind);
    this.residualInTasks = kind !== "growing" && (this.policy === "private" || header.missed === "in tasks");
    this.Lambda = Lambda;
    this.eta = tensors.eta.data;
    this.theta = tensors.theta.data;
    this.factor = new Factor(Lambda, this.basis.rank, this.model.commonShare);
    /** The inputs that a growing basis was made of. */
    this.spanned = new Set([landmarks, tensors.redundant].flatMap((X) => rowsOf(X).map(rowKey)));
    const first = this.points(landmarks.take(landmarks.rows ? [0] : []));
    const numbers = [...first.mean, ...first.residual, ...first.V.data, ...this.individual.diag(first.X)];
    expect(numbers.every(Number.isFinite), "kernels that fit the inputs");
  }

  /** Columns of an input. */
  get dimension() {
    return this.basis.landmarks.columns;
  }

  /** Inputs, and what does not depend on the client there. @param {Matrix} X */
  points(X) {
    return new Points(this, X);
  }

  /** The average task f̄ at some inputs. @param {Points} points @returns {Prediction} */
  average(points) {
    const variance = Float64Array.from(points.residual, (residual, i) => whitenedVariance(points.V.row(i), null) + residual);
    return { mean: points.mean, std: this.std(variance) };
  }

  /** A passive client's own function. @param {Matrix} X @param {ArrayLike<number>} y @param {ArrayLike<number>} [noise] */
  estimate(X, y, noise) {
    return new Estimate(this, Task.of(X, y, noise), this.individual, Task.of(new Matrix(0, X.columns), []));
  }

  /** An active client's own function, from the JSON of its coefficients. @param {any} coefficients */
  activeEstimate(coefficients) {
    if (coefficients.release !== this.digest) throw new Error("these coefficients are of another release: load both again");
    const task = (/** @type {any} */ part) =>
      new Task(Matrix.of(part.inputs, this.dimension), Float64Array.from(part.y), Float64Array.from(part.noise));
    const released = coefficients.released === null ? null : task(coefficients.released);
    const a = Float64Array.from(coefficients.a);
    return new Estimate(this, task(coefficients), kernelOf(coefficients.kernel), released, a);
  }

  /** A task's own part: with the residual of a fixed basis. @param {Kernel} kernel */
  shift(kernel) {
    return new Shift(kernel, this.model, this.residualInTasks ? this.basis : null);
  }

  /** A client's own part: with the residual of a growing basis at inputs that nobody else has. @param {Kernel} kernel */
  clientShift(kernel) {
    return this.basis.kind === "growing" ? new Shift(kernel, this.model, this.basis, this.spanned) : this.shift(kernel);
  }

  /** From variances in units of σ²; of an observation with λ more. @param {Float64Array} variance @param {boolean} [observation] */
  std(variance, observation = false) {
    const { sigma2 } = this;
    if (sigma2 === null) return null;
    return variance.map((one) => Math.sqrt(sigma2 * (Math.max(one, 0) + (observation ? this.model.lam : 0))));
  }
}

/** Inputs, with φ(x) plain and whitened, the average there, and the residual variance of the basis. */
export class Points {
  /** @param {Disclosed} release @param {Matrix} X */
  constructor(release, X) {
    this.X = X;
    this.E = release.basis.e(X);
    this.F = release.basis.columns(X, this.E);
    this.V = release.factor.whitened(this.F);
    this.mean = apply(this.F, release.theta);
    this.residual = release.basis.residual(X, this.E).map((one) => release.model.commonShare * one);
  }
}

/**
 * One client's function: f̂(x) = φ(x)ᵀθ̂ + (1−α) k̃(x, h) a, with its uncertainty.
 *
 * `released` are the client's examples in the release, null if they are those of `task`: then nothing is to be learned,
 * and a is the server's. If the release has nothing of the client, its examples are added; else they are exchanged.
 */
export class Estimate {
  /**
   * @param {Disclosed} release
   * @param {Task} task
   * @param {Kernel} kernel
   * @param {Task | null} released
   * @param {Float64Array | null} a
   */
  constructor(release, task, kernel, released, a = null) {
    this.release = release;
    this.task = task;
    this.shift = released === null ? release.shift(kernel) : release.clientShift(kernel);
    this.own = release.points(task.X);
    this.covariance = this.shift.covariance(task, this.own.E);
    this.R = inverse(this.covariance);
    /** @type {ReturnType<typeof condition> | null} */
    this.added = null;
    /** @type {{factor: Factor, theta: Float64Array} | null} */
    this.exchanged = null;
    if (released !== null && released.size === 0 && release.factor.identifiesBias)
      this.added = condition(this.own.V, this.covariance, difference(task.y, this.own.mean));
    else if (released !== null) this.exchanged = this.#exchange(released);
    this.a = a !== null && released === null ? a : apply(this.R, difference(task.y, this.#average(this.own)));
  }

  /** The posterior with these examples in place of the released ones. @param {Task} released */
  #exchange(released) {
    const { release, shift } = this;
    let Lambda = release.Lambda;
    const gradient = new Float64Array(release.theta.length);
    const eta = release.eta.slice();
    for (const [part, sign] of /** @type {[Task, number][]} */ ([[released, -1], [this.task, 1]])) {
      const E = release.basis.e(part.X);
      const F = release.basis.columns(part.X, E);
      const information = shift.information(part, E, F);
      Lambda = sum(Lambda, information.Lambda, sign);
      add(eta, sign, applyTransposed(information.RF, part.y));
      add(gradient, sign, applyTransposed(information.RF, difference(part.y, apply(F, release.theta))));
    }
    const factor = new Factor(Lambda, release.basis.rank, release.model.commonShare);
    if (!factor.identifiesBias) return { factor, theta: factor.sigma(eta) };
    // A step from the release's weights keeps more digits than the solution from the sums.
    return { factor, theta: sum(vector(release.theta), vector(factor.sigma(gradient))).data };
  }

  /** φ(x)ᵀθ̂. @param {Points} points */
  #average(points) {
    if (this.exchanged !== null) return apply(points.F, this.exchanged.theta);
    const mean = points.mean.slice();
    if (this.added !== null) add(mean, 1, apply(points.V, this.added.zeta));
    return mean;
  }

  /** The own part between some inputs and the client's. @param {Points} points */
  #gram(points) {
    return this.shift.gram(points.X, this.task.X, points.E, this.own.E);
  }

  /** The function at some inputs, and its standard deviation. @param {Points} points @returns {Prediction} */
  predict(points) {
    const k = this.#gram(points);
    const mean = this.#average(points);
    add(mean, 1, apply(k, this.a));
    const [V, ownV] =
      this.exchanged === null
        ? [points.V, this.own.V]
        : [this.exchanged.factor.whitened(points.F), this.exchanged.factor.whitened(this.own.F)];
    const kR = multiply(k, this.R);
    const unshared = this.shift.variance(points.X, points.residual);
    const gain = this.added === null ? null : this.added.gain;
    const variance = unshared.map((own, i) => {
      const q = V.row(i).slice();
      add(q, -1, applyTransposed(ownV, kR.row(i)));
      return whitenedVariance(q, gain) + Math.max(own - dot(kR.row(i), k.row(i)), 0);
    });
    return { mean, std: this.release.std(variance) };
  }

  /**
   * By how much each own example moved the estimate from the average: a row for each input, whose sum is the move.
   *
   * f̂(x) − f̄(x) = Σᵢ gᵢ(x)(yᵢ − f̄(xᵢ)) with g(x) = K(x, h) K(h, h)⁻¹, K the covariance that the release leaves.
   * @param {Points} points
   */
  influence(points) {
    const { added, own, task } = this;
    if (added === null) return null;
    const k = this.#gram(points);
    const surprise = difference(task.y, own.mean);
    const moves = new Matrix(points.X.rows, task.size);
    for (let i = 0; i < points.X.rows; i++) {
      const covariance = k.row(i).slice();
      add(covariance, 1, apply(own.V, points.V.row(i)));
      const weights = solveLowerTransposed(added.L, solveLower(added.L, covariance));
      moves.row(i).set(weights.map((weight, j) => weight * surprise[j]));
    }
    return moves;
  }
}

/** @param {Float64Array} a @param {Float64Array} b */
function difference(a, b) {
  return a.map((value, i) => value - b[i]);
}

/** @param {Float64Array} values */
function vector(values) {
  return new Matrix(1, values.length, values);
}

/** @param {Matrix} X */
function rowsOf(X) {
  return Array.from({ length: X.rows }, (_, i) => X.row(i));
}
