"""Columns of inputs that look like the names of groups, when a fit is given no tasks.

Such numbers would be read as quantities, and all rows as one task: nothing fails, and predictions are poor. A column of
whole numbers is told from a quantity by its name, or by what it does: outputs, or their slopes, differ between its
values, and between neighbours as much as between any two. Along a curve neighbours are alike.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence

import numpy as np
from scipy.stats import f as f_distribution

from motet.arrays import Array, Index, is_finite

MIN_VALUES, MIN_REPEATS = 8, 3  # fewer values may lie on a curve by chance, however different neighbours are
MIN_NAMED_VALUES, MIN_NAMED_REPEATS = 5, 2  # of a column that has a group's name
GROUP_WORDS = {"id", "ids", "subject", "patient", "person", "participant", "individual", "client", "customer", "user"}
GROUP_WORDS |= {"student", "pupil", "animal", "site", "clinic", "hospital", "school", "family", "household", "group"}
NUMBERED = {"no", "nr", "num", "number", "code", "index", "key", "label"}
PROBABILITY = 1e-3  # of neighbours that differ so much by chance
MIN_SHARE = 0.02  # of the variance that a straight line leaves
MIN_ROUGHNESS = 0.75  # neighbours' mean square difference by that of any two: 1 of groups, near 0 along a curve
SPIKES = 4  # one in so many values, and two at least, may lie off a curve, as holidays and rush hours do
MAX_SLOPES = 50  # columns, above which straight lines in them would take long
ONE_ROW_EACH = (
    "every {0} has one row, so nothing tells shifts from noise: how the variance is divided between them is a guess; "
    "give several rows of some {0}s"
)


def has_group_name(name: str) -> bool:
    """Whether a column is called as groups are: id, subject, patient_id, groupNumber."""
    words = [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)]
    named = any(word in GROUP_WORDS for word in words) and all(word in GROUP_WORDS | NUMBERED for word in words)
    return named or words[-1:] in (["id"], ["ids"])


def warn_of_groups(X: Array, y: Array, names: Sequence[str], *, of_frame: bool) -> None:
    """A warning for each column that looks like a group; of the line that called ``fit``, three calls above."""
    if not is_finite(X).all() or not is_finite(y).all():
        return  # which is refused elsewhere
    with np.errstate(all="ignore"):
        groups = list(groups_among(X, y, names if of_frame else None))
    for column, values in groups:
        way = f"MixedEffectRegressor(task={names[column]!r}), or " if of_frame else ""
        warnings.warn(
            f"{names[column]} looks like a group: {values} whole numbers, each in {len(y) / values:.2g} rows on "
            "average. It is read as a quantity, and all rows are one task; if its rows belong together, say so: "
            f"{way}fit(X, y, task=ids) without that column",
            UserWarning,
            stacklevel=5,
        )


def groups_among(X: Array, y: Array, names: Sequence[str] | None) -> Iterator[tuple[int, int]]:
    """The columns that look like a group, and how many values each has; ``names`` are a frame's."""
    effects: _Effects | None = None
    for column in np.flatnonzero((np.floor(X) == X).all(axis=0)).tolist():
        values, value, count = np.unique(X[:, column], return_inverse=True, return_counts=True)
        number, repeats = len(values), len(y) / len(values)
        if names is not None and has_group_name(names[column]):
            looks = number >= MIN_NAMED_VALUES and repeats >= MIN_NAMED_REPEATS
        elif looks := number >= MIN_VALUES and repeats >= MIN_REPEATS:
            effects = effects or _Effects(X, y)
            looks = any(_is_rough(value.ravel(), count, effect) for effect in effects.of(column))
        if looks:
            yield column, number


class _Effects:
    """What may differ by group, of each row: the output, without a straight line in the other columns, and slopes."""

    def __init__(self, X: Array, y: Array) -> None:
        self._Z = X - X.mean(axis=0) if X.shape[1] <= MAX_SLOPES else np.zeros((len(y), 0))
        self._slopes = np.linalg.lstsq(self._Z, y - y.mean(), rcond=None)[0]
        self._residual = y - y.mean() - self._Z @ self._slopes

    def of(self, column: int) -> Iterator[Array]:
        own = slice(column, column + 1)  # empty if there are too many columns
        yield self._residual + self._Z[:, own] @ self._slopes[own]
        for other in np.delete(self._Z, own, axis=1).T:
            yield self._residual * other


def _is_rough(value: Index, count: Index, effect: Array) -> bool:
    """Whether means differ between neighbouring values as much as between any two, and by more than chance."""
    mean = np.bincount(value, effect) / count
    square = np.bincount(value, (effect - mean[value]) ** 2)
    far = np.argsort(np.abs(mean - np.median(mean)))[len(mean) - max(2, len(mean) // SPIKES) :]
    kept = np.setdiff1d(np.flatnonzero(count > 1), far)
    if len(kept) < MIN_VALUES - 2:
        return False
    mean, count = mean[kept], count[kept]
    variance = square[kept] / (count - 1)
    error = variance / count  # of each mean; variances may differ
    weight = np.full(len(kept), 2.0)
    weight[[0, -1]] = 1.0  # the first and the last have one neighbour
    steps, chance = float(np.sum(np.diff(mean) ** 2)), float(weight @ error)
    between = 2.0 * float(np.var(mean, ddof=1)) * (len(kept) - 1)
    if steps < MIN_ROUGHNESS * between or steps <= chance:
        return False
    size = (steps - chance) / (2.0 * (len(kept) - 1))
    if size < MIN_SHARE * (size + float(variance @ count) / count.sum()):
        return False
    if not chance:
        return True
    above = 2.0 / 3.0 * chance**2 / float(np.sum((weight * error) ** 2))
    below = chance**2 / float(np.sum((weight * error) ** 2 / (count - 1)))
    return bool(f_distribution.sf(steps / chance, above, below) < PROBABILITY)
