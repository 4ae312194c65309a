"""Admission of tasks to a release: an engine refuses all, a service leaves out those whose examples are the reason.

A task may have no inverse covariance, or so many inputs that a growing basis does not fit into memory; or the sums of
all lose their digits because of a few extreme ones. Whoever is left out has changed nothing for the others: their
release is the one without it.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from motet.arrays import Array
from motet.engine.engine import Engine
from motet.errors import InvalidRelease, MotetError, NotPositiveDefinite

UNUSABLE = (
    "the model cannot be solved with these examples: inputs are too large for it, or too close to each other "
    "for their noise"
)
TOO_MANY_INPUTS = "there are more different inputs than a release can have, and those with the most are left out first"
EXTREME = "inputs or outputs are so large that no release can be computed with them"
MAX_EXTREME_SHARE = 0.5  # of the tasks: if leaving out more is needed, the model is at fault


@np.errstate(all="ignore")
def admit(engine: Engine, *, max_inputs: int) -> dict[Hashable, str]:
    """Forget the tasks that prevent a release; returns each with the reason. Raises if the others have none either."""
    if not engine.tasks:
        return {}
    left_out = dict.fromkeys(_with_most_inputs(engine, max_inputs), TOO_MANY_INPUTS)
    for task in left_out:
        engine.forget(task)
    refusal = _refusal(engine)
    while refusal is not None and (tasks := getattr(refusal, "tasks", ())):
        left_out |= dict.fromkeys(tasks, UNUSABLE)
        for task in tasks:
            engine.forget(task)
        refusal = _refusal(engine)
    return left_out if refusal is None else left_out | _without_extremes(engine, refusal)


def _refusal(engine: Engine) -> MotetError | None:
    """Why an engine has no release that clients can read: its own reason, theirs, or numbers that are not finite."""
    try:
        release = engine.disclose()
        release.check()
    except (NotPositiveDefinite, InvalidRelease) as refusal:
        return refusal
    except np.linalg.LinAlgError:
        return InvalidRelease("the sums of the examples have lost their digits")
    if all(np.isfinite(tensor).all() for tensor in (release.A, release.Lambda, release.eta, release.theta)):
        return None
    return InvalidRelease("the sums of the examples are not finite")


def _with_most_inputs(engine: Engine, max_inputs: int) -> list[Hashable]:
    """The tasks to leave out of a growing basis, largest first and of equals the newest, until the others' inputs fit.

    So a task that floods a study with inputs is left out before anybody else is.
    """
    grows = engine.model.common is not None and engine.model.basis is None
    if not grows or len(engine.inputs) <= max_inputs:
        return []
    groups = [folded for _, folded, _ in engine.tasks_by_kernel()]
    tasks = [
        (task, folded.input[begin:end])
        for folded in groups
        for task, begin, end in zip(folded.task.tolist(), folded.start[:-1], folded.start[1:])
    ]
    seen: set[int] = set()
    excess = []
    for task, inputs in sorted(tasks, key=lambda one: (len(one[1]), one[0])):
        if len(seen) + len(new := set(inputs.tolist()) - seen) <= max_inputs:
            seen |= new
        else:
            excess.append(task)
    return engine.labels(excess)


def _without_extremes(engine: Engine, refusal: MotetError) -> dict[Hashable, str]:
    """Forget as few of the most extreme tasks as a release needs, found by bisection."""
    ranked = _by_extremity(engine)
    examples = {task: engine.examples(task) for task in ranked[: int(MAX_EXTREME_SHARE * len(ranked))]}
    ranked, aside = list(examples), 0

    def works(count: int) -> bool:
        nonlocal aside
        for task in ranked[aside:count]:
            engine.forget(task)
        for task in ranked[count:aside]:
            engine.learn_many([task] * len(examples[task][1]), *examples[task])
        aside = count
        return _refusal(engine) is None

    fails, count = 0, min(1, len(ranked))
    while not (works_now := works(count)) and count < len(ranked):
        fails, count = count, min(2 * count, len(ranked))
    if not works_now:
        works(0)
        raise refusal
    while count - fails > 1:
        middle = (fails + count) // 2
        fails, count = (fails, middle) if works(middle) else (middle, count)
    works(count)
    return dict.fromkeys(ranked[:count], EXTREME)


def _by_extremity(engine: Engine) -> list[Hashable]:
    """All tasks, those first whose inputs and outputs are largest beside their noise."""
    model, extremity = engine.model, dict[int, float]()
    for kernel, folded, X in engine.tasks_by_kernel():
        variance = np.maximum(kernel.diag(X), 0.0 if model.common is None else model.common.diag(X))
        size = np.log1p(variance)[folded.input] + np.log1p(np.abs(folded.y)) - np.log(folded.noise)
        largest: Array = np.maximum.reduceat(np.nan_to_num(size, nan=np.inf), folded.start[:-1])
        extremity |= dict(zip(folded.task.tolist(), largest.tolist()))
    labels = dict(zip(sorted(extremity), engine.labels(extremity)))
    return [labels[task] for task in sorted(extremity, key=lambda task: -extremity[task])]
