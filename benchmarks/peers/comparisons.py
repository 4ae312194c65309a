"""What is compared: data, sizes, programs, and why one of them wins."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.peers import data
from benchmarks.peers.data import Data
from benchmarks.peers.environments import OWN, R
from benchmarks.peers.run import Limits, Outcome, run
from motet.arrays import Array


@dataclass(frozen=True)
class Program:
    """One that is compared: its snippet, where it runs, and in what its model differs from ours, if it does."""

    name: str
    function: str
    environment: str = OWN
    differs: str = ""
    remark: str = ""
    has_processes: bool = False  # of its own, which are all counted


@dataclass(frozen=True)
class Comparison:
    """Programs on the same data; the first is Motet's, with whose predictions the others are compared."""

    title: str
    text: str
    why: str
    snippets: str
    make: Callable[[int], Data]
    size: str  # what the sizes count
    sizes: tuple[int, ...]
    programs: tuple[Program, ...]


@dataclass(frozen=True, eq=False)
class Result:
    """What a program did on one size; the errors are None if it failed."""

    size: int
    program: Program
    outcome: Outcome
    rmse: float | None = None
    difference: float | None = None  # root mean square, to Motet's predictions


MOTET = Program("Motet", "motet")
DENSE = (
    Program("numpy, dense solve", "direct"),
    Program("scikit-learn", "scikit_learn", remark="kernel written by hand"),
    Program("GPyTorch", "gpytorch", "gpytorch", remark="Cholesky at every size"),
)
ONE_MODEL = "one linear model for all clients"

TABLE: dict[str, Comparison] = {
    "by_task": Comparison(
        "A Gaussian process by tasks, inputs that repeat",
        "Five ratings of each listener on 489 artists, the article's kernels, settings given; all programs solve the "
        "same equations.",
        "The others factorise a matrix of all examples, in the cube of their number. Motet's largest matrix has a "
        "row for each different input, of which there are at most 489. With 500 examples that saves little, and "
        "its several steps take longer than one small dense solve.",
        "by_task",
        data.by_task,
        "examples",
        (500, 1000, 2000, 4000),
        (MOTET, *DENSE),
    ),
    "distinct": Comparison(
        "A Gaussian process by tasks, every input another",
        "The same model, with an input of its own for every example, and no landmarks: the worst case for Motet.",
        "Motet's matrix now has as many rows as the others', and a profile shows several operations on it that "
        "cost the cube (columns of the basis, a congruence, factors), where the dense solve has one. For such data "
        "Motet has landmarks, which are not exact and therefore not in this table. The dense solve is the same "
        "work as in the table above: where its times differ, that is the noise of the measurement.",
        "by_task",
        data.distinct,
        "examples",
        (500, 1000, 2000, 4000),
        (MOTET, *DENSE),
    ),
    "mixed": Comparison(
        "A random intercept and slope",
        "`y ~ x + (1 + x | group)` by maximum likelihood, eight rows a group; the error is that of a ninth row.",
        "With 1,000 groups lme4 and GPBoost are faster: in a profile of Motet the search for settings is over four "
        "fifths of the time, and much of that is Python that handles kernels, whatever the number of groups. With "
        "more groups Motet is faster. It reduces each group to as few rows as it has coefficients before the "
        "search, and does all groups of a size at once; lme4 and GPBoost keep sparse matrices of all groups, and "
        "statsmodels goes through the groups in Python. The peers were not profiled.",
        "mixed",
        data.mixed,
        "groups",
        (1000, 10_000, 125_000),
        (
            MOTET,
            Program("lme4", "lme4", R),
            Program("GPBoost", "gpboost", "gpboost", differs="intercepts and slopes independent"),
            Program("statsmodels", "statsmodels"),
        ),
    ),
    "crossed": Comparison(
        "Crossed effects",
        "lme4's InstEval, marks of 2,972 students for 1,128 lecturers: `y ~ 1 + (1 | s) + (1 | d)` by maximum "
        "likelihood; a tenth of the rows is held out.",
        "Nearly all pairs of a student and a lecturer are empty. lme4 and GPBoost use sparse matrices; Motet's "
        "matrix of lecturers is dense, and a profile has nine tenths of its time in the search with it. "
        "statsmodels has crossed effects only as one group of all rows, with dense matrices.",
        "crossed",
        data.crossed,
        "rows",
        (5000, 20_000, 73_421),
        (
            MOTET,
            Program("lme4", "lme4", R),
            Program("GPBoost", "gpboost", "gpboost"),
            Program("statsmodels", "statsmodels"),
        ),
    ),
    "ratings": Comparison(
        "Ratings",
        "Listeners of the article's simulation, twenty ratings each and five more held out, of 489 artists. The "
        "simulation is ours and follows Motet's model, which favours Motet with tags.",
        "Motet searches for its settings by evidence in every run. Surprise is there twice: with its default "
        "settings, which are not searched, and with a search of 16 by cross-validation, which is much better, and "
        "better than Motet without tags. With 1,000 listeners the best of the 16 is a corner of the grid (most "
        "factors, passes, rate and penalty), so a wider search may find better ones. With the artists' tags Motet "
        "knows what artists have in common, which a factorisation has to find in the ratings. Without tags, Motet "
        "has an effect of each listener and of each artist and no factors.",
        "ratings",
        data.ratings,
        "listeners",
        (300, 1000, 3000),
        (
            MOTET,
            Program("Motet without tags", "motet_names", differs="listener and artist effects alone"),
            Program("Surprise, SVD", "surprise", "surprise", differs="100 factors, no tags; default settings"),
            Program("Surprise, SVD, searched", "surprise_search", "surprise", differs="factors, no tags; 16 settings"),
        ),
    ),
    "federated": Comparison(
        "Clients that keep their rows",
        "100 clients of 30 rows and five columns, whose coefficients differ. Motet: each client's sums once, a "
        "linear mixed model. The others: 30 rounds of averaging, five steps of descent in each.",
        "The exact pass needs one message of each client and has coefficients for each of them; averaging needs 30 "
        "and has one model, which fits no client well; steps of descent at each client mend most of that. "
        "Averaging works for models that have no sums to add, such as neural networks, and Motet does not. Motet "
        "searches for its variances; rounds, steps and rate of averaging and of the descent were set by hand and "
        "not searched, so others may do better. Flower's time is mostly that of starting and feeding its simulated "
        "clients: all its processes are counted, imports as well.",
        "federated",
        data.federated,
        "clients",
        (100,),
        (
            MOTET,
            Program("federated averaging, numpy", "averaging", differs=ONE_MODEL),
            Program("the same, then descent at each client", "fine_tuning", differs="coefficients of each by descent"),
            Program("Flower, FedAvg", "flower", "flower", differs=ONE_MODEL, has_processes=True),
        ),
    ),
}


def results(comparison: Comparison, limits: Limits) -> Iterator[Result]:
    """Every program on every size. One that ran into a limit is not tried on larger data, and says so."""
    stopped: dict[str, str] = {}
    for size in comparison.sizes:
        made, ours = comparison.make(size), None
        for program in comparison.programs:
            if program.name in stopped:
                yield Result(size, program, Outcome(reason=stopped[program.name]))
                continue
            outcome = run(comparison.snippets, program.function, program.environment, made.given, limits)
            if outcome.reason.startswith("more than"):
                stopped[program.name] = f"not tried: {outcome.reason} at {size:,} {comparison.size}"
            if program.has_processes:
                outcome = replace(outcome, seconds=outcome.all_seconds)
            result = _result(size, program, outcome, made, ours)
            ours = outcome.predicted if program is comparison.programs[0] else ours
            yield result


def _result(size: int, program: Program, outcome: Outcome, made: Data, ours: Array | None) -> Result:
    if outcome.predicted is None:
        return Result(size, program, outcome)
    if outcome.predicted.shape != made.y_new.shape:
        reason = f"expected {made.y_new.shape} predictions, got {outcome.predicted.shape}"
        return Result(size, program, Outcome(reason=reason))
    difference = None if ours is None else _rms(outcome.predicted - ours)
    return Result(size, program, outcome, _rms(outcome.predicted - made.y_new), difference)


def _rms(errors: Array) -> float:
    return float(np.sqrt(np.mean(errors**2)))
