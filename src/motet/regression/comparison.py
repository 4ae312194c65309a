"""Model comparison: information criteria, likelihood-ratio tests of nested pairs, and leave-one-out log scores.

Evidences by REML can be compared only if the fixed parts are equal; otherwise all are fitted again by ML, and
a note says so.
"""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from scipy.stats import chi2

from motet.engine.engine import Engine
from motet.errors import InvalidData
from motet.kernels.algebra import innermost
from motet.kernels.registry import KERNELS, entry_of
from motet.regression.residuals import leave_out
from motet.regression.results import Results
from motet.regression.tables import Table
from motet.tuning.tuning import tune_tasks


class Fitted(Protocol):
    """A regressor with results."""

    @property
    def results_(self) -> Results: ...


class Comparison:
    """A row for each model, from few parameters to many, in ``table``; ``notes`` are sentences.

    ``chi2``, ``df`` and ``p`` test a model against the one above it, if that is nested in it. Where one variance is 0,
    its boundary, under the smaller model, ``p`` is that of χ̄², half χ² of df − 1 and half of df degrees of freedom;
    where several are, that of χ², which is conservative. ``loo`` is the sum of log scores of all rows, each predicted
    without itself, by the models as they were fitted.
    """

    def __init__(self, table: Table, notes: list[str]) -> None:
        self.table, self.notes = table, notes

    def to_frame(self) -> Any:
        return self.table.to_frame()

    def __getitem__(self, column: str) -> Any:
        return self.table[column]

    def __str__(self) -> str:
        return "\n".join([str(self.table), *(f"· {note}" for note in self.notes)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in self.notes)
        return self.table._repr_html_() + (f"<ul>{notes}</ul>" if notes else "")


@dataclass(frozen=True, eq=False)
class Entry:
    """One model: its ``results``, by ML if it was fitted again, the log score as it was fitted, and what it is made of.

    ``parameters`` count what was searched for at first: components that were then said to be zero are part of a model.
    """

    name: str
    results: Results
    parameters: int
    terms: Counter[str]
    fixed: set[str]
    loo: float


def compare(*regressors: Fitted, names: Sequence[str] | None = None) -> Comparison:
    """Fitted regressors beside each other; all must have learned the same rows."""
    if len(regressors) < 2:
        raise InvalidData(f"expected at least two fitted regressors to compare, got {len(regressors)}")
    names = [f"model {k + 1}" for k in range(len(regressors))] if names is None else list(names)
    if len(names) != len(regressors):
        raise InvalidData(f"expected {len(regressors)} names, one for each regressor, got {len(names)}")
    every = [regressor.results_ for regressor in regressors]
    _check_rows(every)
    notes = []
    methods = {results.method for results in every}
    biases = {tuple(results.fixed) for results in every}
    refitted = every
    if methods != {"ML"} and (len(biases) > 1 or len(methods) > 1):
        refitted = [_by_ml(results) for results in every]
        why = "their fixed parts differ" if len(biases) > 1 else "some were fitted by REML and some by ML"
        notes.append(f"fitted again by ML, because {why}")
    entries = [
        Entry(name, again, results.parameters, _terms(results), set(again.fixed), leave_out(results).log_score)
        for name, results, again in zip(names, every, refitted)
    ]
    entries.sort(key=lambda entry: entry.parameters)
    tests = [(np.nan, np.nan, np.nan)]
    for small, large in pairwise(entries):
        test, note = _test(small, large)
        tests.append(test)
        notes += [note] if note else []
    return Comparison(_table(entries, tests), notes)


def _check_rows(every: Iterable[Results]) -> None:
    if len({results.scale.name for results in every}) > 1:
        raise InvalidData(
            "expected regressors that learned the output on one scale, got some that learned its logarithm, which has "
            "another evidence: give all of them the same target="
        )
    first, *others = (np.sort(results.rows[2]) for results in every)
    for k, y in enumerate(others):
        if not np.array_equal(y, first):
            raise InvalidData(
                f"expected regressors fitted on the same rows, got {len(first)} in the first and {len(y)} in number "
                f"{k + 2}, with other outputs: fit them on the same data"
            )


def _by_ml(results: Results) -> Results:
    """The same rows and components, fitted by ML; settings that were given stay."""
    if results.tuning is None:
        return replace(results, method="ML")
    tuning = tune_tasks(results.engine.model, *results.engine.folded(), method="ML")
    engine = Engine(tuning.model)
    engine.learn_many(results.task_labels, *results.rows[1:])
    return Results(engine, tuning, "ML", results.names, results.encoding, results.scale, results.noise)


COVARIANCE = "covariance of "


def _terms(results: Results) -> Counter[str]:
    """All terms of a model, those at 0 included; ``Linear``'s are an intercept, slopes and their covariance."""
    components = results.components.terms
    terms: list[str] = []
    for component in [*components, *(c for c in results.zero if all(c is not other for other in components))]:
        name = component.described(results.names)
        entry = entry_of(innermost(component.kernel))
        if entry.own_scale is not None:
            side, _, rest = name.partition(f": {entry.words}")
            intercept, slopes = KERNELS["constant"].words, KERNELS["dot_product"].words
            terms += [f"{side}: {intercept}", f"{side}: {slopes}{rest}", COVARIANCE + name]
        else:
            terms.append(name)
    return Counter(terms)


def _test(small: Entry, large: Entry) -> tuple[tuple[float, float, float], str]:
    """χ², its degrees of freedom and p, and a note; NaN if the first is not nested in the second."""
    df = large.parameters - small.parameters
    is_nested = small.terms <= large.terms and small.fixed <= large.fixed
    if not is_nested or not df:
        return (np.nan,) * 3, f"{small.name} is not nested in {large.name}: compare them by AIC, BIC or loo"
    statistic = max(small.results.criterion - large.results.criterion, 0.0)
    boundary = sum(not term.startswith(COVARIANCE) for term in (large.terms - small.terms).elements())
    note = ""
    if boundary == 1:
        mixture = f"p is half χ² of {df - 1} and half of {df} degrees of freedom"
        note = f"a variance of {large.name} is at its boundary, 0, under {small.name}: {mixture}"
    elif boundary > 1:
        note = f"{boundary} variances of {large.name} are at their boundary under {small.name}: p is conservative"
    return (statistic, float(df), chi_bar_square(statistic, df, boundary)), note


def chi_bar_square(statistic: float, df: int, boundary: int) -> float:
    """The p-value of a likelihood ratio if ``boundary`` of ``df`` parameters are variances, 0 in the smaller model.

    With one, half χ² of df − 1 and half of df degrees of freedom (Stram and Lee, 1994); with more, χ² of df is an upper
    bound.
    """
    upper = float(chi2.sf(statistic, df))
    if boundary != 1:
        return upper
    lower = float(chi2.sf(statistic, df - 1)) if df > 1 else float(statistic <= 0.0)
    return 0.5 * (lower + upper)


def _table(entries: list[Entry], tests: list[tuple[float, float, float]]) -> Table:
    criteria = np.array([entry.results.criterion for entry in entries])
    parameters = np.array([entry.parameters for entry in entries])
    log_rows = np.log(len(entries[0].results.engine))
    statistic, df, p = (np.array(column) for column in zip(*tests))
    columns = {
        "model": [entry.name for entry in entries],
        "parameters": parameters,
        "criterion": criteria,
        "AIC": criteria + 2.0 * parameters,
        "BIC": criteria + log_rows * parameters,
        "loo": np.array([entry.loo for entry in entries]),
        "chi2": statistic,
        "df": df,
        "p": p,
    }
    return Table(columns, f"Comparison by {entries[0].results.method}")
