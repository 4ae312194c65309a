/**
 * Tables of numbers, and the linear algebra that an estimate needs: products, Cholesky, triangular solves, eigenvectors.
 *
 * A table lies row after row in one Float64Array, and loops run along rows: that is fast enough without a library.
 */

/** @typedef {Float64Array | number[]} Vector */

export class Matrix {
  /**
   * @param {number} rows
   * @param {number} columns
   * @param {Float64Array} [data] row after row; zeros without it
   */
  constructor(rows, columns, data = new Float64Array(rows * columns)) {
    this.rows = rows;
    this.columns = columns;
    this.data = data;
  }

  /**
   * @param {ArrayLike<number>[]} rows
   * @param {number} columns
   */
  static of(rows, columns) {
    const matrix = new Matrix(rows.length, columns);
    rows.forEach((row, i) => {
      if (row.length !== columns) throw new Error(`expected rows of ${columns} numbers, got one of ${row.length}`);
      matrix.row(i).set(row);
    });
    return matrix;
  }

  /** A view of one row. @param {number} i */
  row(i) {
    return this.data.subarray(i * this.columns, (i + 1) * this.columns);
  }

  /** Some of the rows. @param {ArrayLike<number>} index */
  take(index) {
    const chosen = new Matrix(index.length, this.columns);
    for (let i = 0; i < index.length; i++) chosen.row(i).set(this.row(index[i]));
    return chosen;
  }

  /** A block of rows and columns. @param {[number, number]} rows @param {[number, number]} columns */
  block([top, bottom], [left, right]) {
    const part = new Matrix(bottom - top, right - left);
    for (let i = top; i < bottom; i++) part.row(i - top).set(this.row(i).subarray(left, right));
    return part;
  }

  get transposed() {
    const result = new Matrix(this.columns, this.rows);
    for (let i = 0; i < this.rows; i++)
      for (let j = 0; j < this.columns; j++) result.data[j * this.rows + i] = this.data[i * this.columns + j];
    return result;
  }

  /** @param {number} size */
  static identity(size) {
    const result = new Matrix(size, size);
    for (let i = 0; i < size; i++) result.data[i * size + i] = 1;
    return result;
  }
}

/** aᵀb over the first n numbers. @param {Vector} a @param {Vector} b @param {number} [n] */
export function dot(a, b, n = a.length) {
  let sum = 0;
  for (let i = 0; i < n; i++) sum += a[i] * b[i];
  return sum;
}

/** y ← y + s x. @param {Float64Array} y @param {number} s @param {Vector} x */
export function add(y, s, x) {
  for (let i = 0; i < y.length; i++) y[i] += s * x[i];
}

/** A x. @param {Matrix} A @param {Vector} x */
export function apply(A, x) {
  return Float64Array.from({ length: A.rows }, (_, i) => dot(A.row(i), x));
}

/** Aᵀx. @param {Matrix} A @param {Vector} x */
export function applyTransposed(A, x) {
  const result = new Float64Array(A.columns);
  for (let i = 0; i < A.rows; i++) add(result, x[i], A.row(i));
  return result;
}

/** A B. @param {Matrix} A @param {Matrix} B */
export function multiply(A, B) {
  const result = new Matrix(A.rows, B.columns);
  for (let i = 0; i < A.rows; i++) result.row(i).set(applyTransposed(B, A.row(i)));
  return result;
}

/** A Bᵀ. @param {Matrix} A @param {Matrix} B */
export function multiplyTransposed(A, B) {
  const result = new Matrix(A.rows, B.rows);
  for (let i = 0; i < A.rows; i++) result.row(i).set(apply(B, A.row(i)));
  return result;
}

/** A + s B. @param {Matrix} A @param {Matrix} B @param {number} s */
export function sum(A, B, s = 1) {
  const result = new Matrix(A.rows, A.columns, A.data.slice());
  add(result.data, s, B.data);
  return result;
}

/** The lower factor L with LLᵀ = S, of which only the lower triangle is read. @param {Matrix} S */
export function cholesky(S) {
  const L = new Matrix(S.rows, S.rows);
  for (let i = 0; i < S.rows; i++) {
    const row = L.row(i);
    for (let j = 0; j < i; j++) row[j] = (S.row(i)[j] - dot(row, L.row(j), j)) / L.row(j)[j];
    const pivot = S.row(i)[i] - dot(row, row, i);
    if (!(pivot > 0)) throw new RangeError("not positive definite: inputs are too close to each other for their noise");
    row[i] = Math.sqrt(pivot);
  }
  return L;
}

/** L⁻¹v. @param {Matrix} L @param {Vector} v */
export function solveLower(L, v) {
  const x = new Float64Array(L.rows);
  for (let i = 0; i < L.rows; i++) x[i] = (v[i] - dot(L.row(i), x, i)) / L.row(i)[i];
  return x;
}

/** L⁻ᵀv. @param {Matrix} L @param {Vector} v */
export function solveLowerTransposed(L, v) {
  const x = Float64Array.from(v);
  for (let i = L.rows - 1; i >= 0; i--) {
    x[i] /= L.row(i)[i];
    add(x.subarray(0, i), -x[i], L.row(i));
  }
  return x;
}

/** L⁻¹M. @param {Matrix} L @param {Matrix} M */
export function solveLowerMatrix(L, M) {
  const X = new Matrix(M.rows, M.columns, M.data.slice());
  for (let i = 0; i < L.rows; i++) {
    const row = X.row(i);
    for (let j = 0; j < i; j++) add(row, -L.row(i)[j], X.row(j));
    for (let k = 0; k < row.length; k++) row[k] /= L.row(i)[i];
  }
  return X;
}

/** S⁻¹ of a positive definite matrix. @param {Matrix} S */
export function inverse(S) {
  const half = solveLowerMatrix(cholesky(S), Matrix.identity(S.rows)).transposed;
  return multiplyTransposed(half, half);
}

/**
 * Eigenvalues and, as rows, eigenvectors of a small symmetric matrix, by Jacobi's rotations.
 * @param {Matrix} S
 */
export function eigen(S) {
  const n = S.rows;
  const A = new Matrix(n, n, S.data.slice());
  const V = Matrix.identity(n);
  for (let sweep = 0; sweep < 60; sweep++) {
    let off = 0;
    for (let p = 0; p < n; p++)
      for (let q = 0; q < p; q++) {
        off += A.row(p)[q] ** 2;
        rotate(A, V, p, q);
      }
    if (off < 1e-40) break;
  }
  return { values: Float64Array.from({ length: n }, (_, i) => A.row(i)[i]), vectors: V };
}

/** Make A[p][q] zero, and turn V along. @param {Matrix} A @param {Matrix} V @param {number} p @param {number} q */
function rotate(A, V, p, q) {
  const apq = A.row(p)[q];
  if (apq === 0) return;
  const ratio = (A.row(q)[q] - A.row(p)[p]) / (2 * apq);
  const t = (ratio < 0 ? -1 : 1) / (Math.abs(ratio) + Math.hypot(ratio, 1));
  const c = 1 / Math.hypot(t, 1);
  const s = t * c;
  const turn = (/** @type {Float64Array} */ a, /** @type {Float64Array} */ b) => {
    for (let k = 0; k < a.length; k++) [a[k], b[k]] = [c * a[k] - s * b[k], s * a[k] + c * b[k]];
  };
  turn(A.row(p), A.row(q));
  for (let k = 0; k < A.rows; k++) {
    const row = A.row(k);
    [row[p], row[q]] = [c * row[p] - s * row[q], s * row[p] + c * row[q]];
  }
  turn(V.row(p), V.row(q));
}
