/**
 * The weights θ of the basis, given the sums of all tasks: the same as motet/release/posterior.py.
 *
 * θ = θ̂ + √α B^-½ᵀζ with B = diag(prior) + αΛ, ζ ~ N(0, σ²I). In the whitened coordinates ζ a row φ(x) is √α B^-½φ(x).
 */

import {
  Matrix, add, apply, applyTransposed, cholesky, dot, eigen, multiply, multiplyTransposed, solveLower,
  solveLowerMatrix, solveLowerTransposed, sum,
} from "./matrix.js";

/** B, factored; the bias is eliminated first, and what the data do not identify of it gets weight 0. */
export class Factor {
  /** @param {Matrix} Lambda @param {number} rank of the basis; bias columns follow @param {number} share α */
  constructor(Lambda, rank, share) {
    this.share = share;
    this.rank = rank;
    const scaled = new Matrix(Lambda.rows, Lambda.rows, Lambda.data.map((value) => share * value));
    const [basis, bias] = /** @type {[number, number][]} */ ([[0, rank], [rank, Lambda.rows]]);
    const L = scaled.block(bias, bias);
    this.U = identified(L);
    this.Lb = cholesky(multiply(multiply(this.U.transposed, L), this.U));
    this.W = solveLowerMatrix(this.Lb, multiply(this.U.transposed, scaled.block(bias, basis)));
    const S = sum(scaled.block(basis, basis), Matrix.identity(rank));
    for (let i = 0; i < this.W.rows; i++)
      for (let k = 0; k < rank; k++) add(S.row(k), -this.W.row(i)[k], this.W.row(i));
    this.Ls = cholesky(S);
  }

  get identifiesBias() {
    return this.share === 0 || this.U.rows === this.U.columns;
  }

  /** √α B^-½φ for every row φ of F. @param {Matrix} F */
  whitened(F) {
    const V = new Matrix(F.rows, this.Lb.rows + this.rank);
    for (let i = 0; i < F.rows; i++) {
      const row = F.row(i);
      const bias = solveLower(this.Lb, applyTransposed(this.U, row.subarray(this.rank)));
      const rest = row.slice(0, this.rank);
      add(rest, -1, applyTransposed(this.W, bias));
      V.row(i).set(bias);
      V.row(i).set(solveLower(this.Ls, rest), bias.length);
    }
    const root = Math.sqrt(this.share);
    V.data.forEach((value, place) => (V.data[place] = root * value));
    return V;
  }

  /** √α B^-½ᵀζ: a step of θ. @param {Float64Array} zeta */
  step(zeta) {
    const basis = solveLowerTransposed(this.Ls, zeta.subarray(this.Lb.rows));
    const bias = zeta.slice(0, this.Lb.rows);
    add(bias, -1, apply(this.W, basis));
    const root = Math.sqrt(this.share);
    return Float64Array.from([...basis, ...apply(this.U, solveLowerTransposed(this.Lb, bias))], (value) => root * value);
  }

  /** Σv = αB⁻¹v. @param {Float64Array} v */
  sigma(v) {
    return this.step(this.whitened(new Matrix(1, v.length, v)).data);
  }
}

/**
 * The bias with slopes that the data do not identify left out; L is its block of αΛ, the constant first.
 * @param {Matrix} L
 */
function identified(L) {
  const size = Float64Array.from({ length: L.rows }, (_, i) => Math.sqrt(Math.max(L.row(i)[i], 0)));
  if (!size.some(Boolean)) return new Matrix(L.rows, 0);
  const scale = size.map((value) => value || 1);
  const { values, vectors } = eigen(
    new Matrix(L.rows, L.rows, L.data.map((value, k) => value / (scale[Math.floor(k / L.rows)] * scale[k % L.rows]))),
  );
  /** @type {Float64Array[]} */
  const directions = []; // orthonormal: first those left out, then the others
  values.forEach((value, k) => {
    if (value <= 1e-12) orthogonalise(vectors.row(k).map((x, i) => x / scale[i]).subarray(1), directions);
  });
  const left = directions.length;
  if (left === 0) return Matrix.identity(L.rows);
  for (let i = 0; i < L.rows - 1; i++) orthogonalise(Matrix.identity(L.rows - 1).row(i), directions);
  const U = new Matrix(L.rows, L.rows - left);
  U.row(0)[0] = 1;
  directions.slice(left).forEach((direction, k) => direction.forEach((x, i) => (U.row(i + 1)[k + 1] = x)));
  return U;
}

/** Add what is new in a vector to orthonormal directions. @param {Float64Array} vector @param {Float64Array[]} directions */
function orthogonalise(vector, directions) {
  const before = Math.sqrt(dot(vector, vector));
  const rest = vector.slice();
  for (let round = 0; round < 2; round++) for (const one of directions) add(rest, -dot(one, rest), one);
  const length = Math.sqrt(dot(rest, rest));
  if (length > 1e-8 * before) directions.push(rest.map((x) => x / length));
}

/**
 * ζ ~ N(0, I) given residual = Vζ + noise of that covariance: its mean, and `gain`, of which I − gainᵀgain is the new
 * covariance. `L` is the factor of the covariance of the residual.
 * @param {Matrix} V
 * @param {Matrix} covariance
 * @param {Float64Array} residual
 */
export function condition(V, covariance, residual) {
  const L = cholesky(sum(covariance, multiplyTransposed(V, V)));
  const gain = solveLowerMatrix(L, V);
  return { L, gain, zeta: applyTransposed(gain, solveLower(L, residual)) };
}

/** The variance along a row in whitened coordinates. @param {Float64Array} v @param {Matrix | null} gain */
export function whitenedVariance(v, gain) {
  const variance = dot(v, v);
  if (gain === null) return variance;
  const explained = apply(gain, v);
  return Math.max(variance - dot(explained, explained), 0);
}
