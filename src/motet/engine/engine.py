"""Exact online learning and unlearning: examples in, releases out; pure and in memory.

``learn`` appends a triple and no more. When a release, an evidence or a prediction is asked for, the tasks that changed
are folded and inverted in batches, and the sums are rebuilt from every task's Rʲ: nothing drifts, and forgetting is
exact.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import Kernel

from motet.arrays import Array, Index, outputs
from motet.engine.batches import Batch, batches
from motet.engine.information import Information
from motet.engine.predictions import predict, predict_all
from motet.engine.system import Columns, Evidence, System, check_inputs, check_memory
from motet.engine.triples import Triples
from motet.errors import EmptyData, InvalidData, StaleRelease, UnknownExample, UnknownTask, WrongDimension
from motet.kernels.classes import check_dimension
from motet.model.basis import Basis
from motet.model.model import Model
from motet.model.tasks import FoldedTasks, Shift, Task, fold, without_inverse
from motet.release.coefficients import Coefficients
from motet.release.disclosed import Disclosed
from motet.threads import blas_limit

Batches: TypeAlias = dict[tuple[int, int, bool], Batch]  # by the number of their kernel, by size and by form of their R


@dataclass(frozen=True)
class State:
    """All that follows from the examples at one moment: every task's batch, their sum, its evidence and its release."""

    batches: Batches
    information: Information
    evidence: Evidence
    release: Disclosed


class Engine:
    """Learns, unlearns and forgets examples of many tasks, in any order, and discloses their sum.

    ``individual`` gives kernels of single tasks; they are never published. A refused call changes nothing.
    """

    def __init__(self, model: Model, individual: Mapping[Hashable, Kernel] | None = None) -> None:
        self.model = model
        self._kernels = [model.individual]
        self._kernel_of: dict[Hashable, int] = {}
        for task, kernel in (individual or {}).items():
            kernel = model.adapt(kernel)
            if kernel not in self._kernels:
                self._kernels.append(kernel)
            self._kernel_of[task] = self._kernels.index(kernel)
        self._examples = Triples()
        self._fixed: Basis | None = None
        self._latest: State | None = None
        if model.dimension is not None:
            self.open(model.dimension)

    def __repr__(self) -> str:
        return f"Engine({len(self.tasks)} tasks, {len(self)} examples)"

    def __len__(self) -> int:
        """Examples held."""
        return len(self._examples)

    @property
    def tasks(self) -> list[Hashable]:
        """The labels of all tasks that have examples."""
        return self._examples.labels()

    def labels(self, numbers: Collection[int]) -> list[Hashable]:
        """The labels of the tasks with these numbers, which ``tasks_by_kernel`` has, in the numbers' order."""
        return self._examples.labels(numbers)

    def examples(self, task: Hashable) -> tuple[Array, Array, Array]:
        """A task's inputs, outputs and noise."""
        self._check_known(task)
        return self._examples.of_task(task)

    def rows(self) -> tuple[Index, Array, Array, Array]:
        """Of all examples, in the order in which they came: the task's number, the input, the output and the noise."""
        task, input, y, noise = self._examples.of_tasks(np.ones(len(self._examples.changes), dtype=bool))
        return task, self._examples.inputs[input], y, noise

    # --- learning ---

    def learn(self, task: Hashable, x: Any, y: float, noise: float = 1.0) -> None:
        """Take one example; a repeat, a known input or a new one (Algorithms 3, 4 and 5) are all the same here."""
        if not self._examples.append_plain(task, x, y, noise):
            self.learn_many([task], [x], [y], [noise])

    def learn_many(self, tasks: Sequence[Hashable] | Array, X: Any, y: Any, noise: Any = None) -> None:
        """Take many examples, or refuse all of them."""
        X = self.model.rows(X, self._examples.dimension)
        y, noise = outputs(y, noise, len(X))
        if not len(X):
            raise EmptyData("nothing to learn: expected at least one example")
        task = self._examples.assign_numbers(labels_of(tasks, len(X)))
        self.open(X.shape[1])
        self._examples.append(task, X, y, noise)

    def open(self, dimension: int) -> None:
        """Fix how many numbers an input has, as the first example does too. From then on there can be releases."""
        if (current := self._examples.dimension) is not None:
            if dimension != current:
                raise WrongDimension(f"expected inputs of {current} numbers, as this engine has, got {dimension}")
            return
        self.model.check_dimension(dimension)
        for kernel in self._kernels[1:]:
            check_dimension(kernel, dimension)
        self._fixed = self.model.fixed_basis(dimension)
        self._examples.open(dimension)

    def unlearn(self, task: Hashable, x: Any, y: float, noise: float = 1.0) -> None:
        """Take back one example equal to this triple."""
        self._check_known(task)
        row = self.model.rows([x], self._examples.dimension)[0]
        ys, noises = outputs([y], [noise], 1)
        if not self._examples.remove(task, row, float(ys[0]), float(noises[0])):
            raise UnknownExample(f"task {task!r} has no example x={x!r}, y={y!r}, noise={noise!r} to unlearn")

    def forget(self, task: Hashable) -> None:
        """Take back everything of a task, as if it had never been."""
        self._check_known(task)
        self._examples.remove_task(task)

    def _check_known(self, task: Hashable) -> None:
        if task not in self._examples:
            raise UnknownTask(f"unknown task {task!r}: the engine has no examples of it")

    # --- releases ---

    def disclose(self, *, version: int | None = None) -> Disclosed:
        """The release of everything learned so far; the same object until something changes.

        ``version`` is its number, if the caller counts releases; else it is one more than the last.
        """
        state = self._state()
        if version not in (None, state.release.version):
            state = self._latest = replace(state, release=replace(state.release, version=version))
        return state.release

    def information(self) -> Information:
        """The sum over all tasks: over inputs if the basis grows, else in the basis."""
        return self._state().information

    def evidence(self) -> Evidence:
        """Restricted log evidence and σ² of everything learned so far."""
        return self._state().evidence

    def coefficients(self, task: Hashable, disclosed: Disclosed | None = None) -> Coefficients:
        """aʲ of an active client, against the engine's latest release (by default one made now) or a private one."""
        release = self.disclose() if disclosed is None else disclosed
        self._check_known(task)
        current = Task.of(*self._examples.of_task(task))
        kernel = self._kernels[self._kernel_of.get(task, 0)]
        number = self._examples.number(task)
        if release.policy == "private":  # its clipped part stays in: it is smaller than the noise
            released: Task | None = Task.empty(current.X.shape[1])
        elif self._latest is None or release.digest != self._latest.release.digest:
            raise StaleRelease(f"release {release.version} is not this engine's latest: disclose again, then ask")
        else:
            released = self._released(self._latest, number) if self._examples.changes[number] else None
        return release.coefficients(current, released, kernel)

    def _released(self, state: State, number: int) -> Task:
        """A task's examples in the latest release."""
        inputs = self._examples.inputs
        for batch in state.batches.values():
            for k in np.flatnonzero(batch.task == number):
                return Task(inputs[batch.h[k]], batch.y[k].copy(), batch.noise[k].copy())
        return Task.empty(inputs.shape[1])

    @property
    def dimension(self) -> int | None:
        """Columns of an input; None until the model or the first example fixes it."""
        return self._examples.dimension

    @property
    def inputs(self) -> Array:
        """The unique inputs of all tasks."""
        return self._examples.inputs[self._examples.used]

    # --- predictions ---

    @blas_limit
    def predict_many(
        self, tasks: Sequence[Hashable] | Array, X: Any, return_std: bool = False, observation: bool = False
    ) -> Any:
        """Each row's task at its input; a label without examples, or None, is a new individual."""
        state = self._state()
        X = self.model.rows(X, self._examples.dimension)
        task = self._examples.numbers(labels_of(tasks, len(X)))
        stacks = self._with_kernels(state.batches)
        mean, variance = predict(state.release, stacks, self._examples.inputs, task, X, return_std)
        return (mean, state.release.std(variance, observation)) if return_std else mean

    @blas_limit
    def predict_all(self, X: Any) -> Array:
        """Every task at the same inputs: a row for each label of ``tasks``, a column for each input."""
        state = self._state()
        X = self.model.rows(X, self._examples.dimension)
        tasks = len(self._examples.changes)
        means = predict_all(state.release, self._with_kernels(state.batches), self._examples.inputs, tasks, X)
        return means[self._examples.numbers(self.tasks)]

    def _with_kernels(self, by_key: Batches) -> list[tuple[Batch, Kernel]]:
        """Every batch with the kernel of its tasks."""
        return [(batch, self._kernels[kernel]) for (kernel, _, _), batch in by_key.items()]

    # --- from examples to a state ---

    def _state(self) -> State:
        """The latest state, made anew if any example has changed since."""
        if self._examples.dimension is None:
            raise EmptyData("the engine has no inputs yet, so no number of columns: learn an example first")
        if self._latest is None or self._examples.changes.any():
            if self._fixed is None or not len(self._fixed.landmarks):
                check_inputs(self.inputs, self._fixed)
            with blas_limit:
                before = {} if self._latest is None else self._latest.batches
                if self._fixed is not None and self._fixed.has_residual:  # tasks need its features
                    columns = self._columns()
                    by_key = self._batches(before, columns)
                else:
                    with ThreadPoolExecutor(1) as thread:  # the basis grows while tasks are inverted
                        growing = thread.submit(self._columns)
                        by_key = self._batches(before)
                    columns = growing.result()
                system = System.solve(self.model, columns, list(by_key.values()), self._examples.inputs)
                release = system.disclose(1 if self._latest is None else self._latest.release.version + 1)
            if (renumbered := self._examples.compact()) is not None:
                tasks, inputs = renumbered
                by_key = {key: replace(b, task=tasks[b.task], h=inputs[b.h]) for key, b in by_key.items()}
            self._latest = State(by_key, system.information, system.evidence, release)
        return self._latest

    def _batches(self, before: Batches, columns: Columns | None = None) -> Batches:
        """All tasks: those that have not changed from the batches ``before``, the others folded and inverted anew.

        ``columns`` are those of a fixed basis with a residual, which tasks then have as their own.
        """
        inputs = self._examples.inputs
        E = None if columns is None else columns.features(len(inputs))
        changed = self._examples.changes
        unchanged = {key: batch.take(~changed[batch.task]) for key, batch in before.items()}
        by_key = {key: batch for key, batch in unchanged.items() if len(batch.task)}
        failures: dict[int, Kernel] = {}  # tasks without an Rʲ, and their kernels
        for kernel, folded in self._fold_by_kernel(changed):
            shift = Shift.of(self.model, self._kernels[kernel], None if columns is None else columns.basis)
            check_memory(folded, inputs, shift)
            for batch in batches(folded, inputs, shift, E):
                key = (kernel, batch.h.shape[1], batch.is_low_rank)
                by_key[key] = by_key[key].joined(batch) if key in by_key else batch
                failures |= dict.fromkeys(batch.task[~np.isfinite(batch.log_det)].tolist(), shift.kernel)
        if failures:
            refusal = without_inverse(next(iter(failures.values())))
            refusal.tasks = self._examples.labels(failures)
            raise refusal
        return by_key

    def _fold_by_kernel(self, which: NDArray[np.bool_]) -> Iterator[tuple[int, FoldedTasks]]:
        """The chosen tasks, folded, for each kernel that some of them have."""
        kernel_of = np.zeros(len(which), dtype=np.intp)
        for label, kernel in self._kernel_of.items():
            if label in self._examples:
                kernel_of[self._examples.number(label)] = kernel
        rows = self._examples.of_tasks(which)
        kernel_of_row = kernel_of[rows[0]]
        for kernel in np.unique(kernel_of_row) if self._kernel_of else [0]:
            yield int(kernel), fold(*(a[kernel_of_row == kernel] if self._kernel_of else a for a in rows))

    def tasks_by_kernel(self, without: Collection[Hashable] = ()) -> Iterator[tuple[Kernel, FoldedTasks, Array]]:
        """All tasks but those ``without``: each kernel, its tasks, and the inputs that their numbers are about."""
        if self._examples.dimension is None:
            return
        which = np.ones(len(self._examples.changes), dtype=bool)
        excluded = self._examples.numbers(list(without))
        which[excluded[excluded >= 0]] = False
        for kernel, folded in self._fold_by_kernel(which):
            yield self._kernels[kernel], folded, self._examples.inputs

    def folded(self) -> tuple[FoldedTasks, Array]:
        """All tasks, folded, on the inputs in use; they must have the model's own kernel."""
        groups = list(self.tasks_by_kernel())
        if not groups:
            raise EmptyData("nothing to tune on: learn examples first")
        if len(groups) > 1 or groups[0][0] is not self._kernels[0]:
            raise InvalidData("tuning needs one kernel for all tasks, got kernels of single tasks: omit individual=")
        _, folded, X = groups[0]
        used, input = np.unique(folded.input, return_inverse=True)
        return replace(folded, input=input.reshape(folded.input.shape)), X[used]

    def _columns(self) -> Columns:
        """The basis, and its columns at the inputs in use."""
        return Columns.of(self.model, self._fixed, self._examples.inputs, self._examples.used)


def labels_of(tasks: Any, n: int) -> Any:
    """One label for each of ``n`` inputs, from a list, a tuple, an array or a column of a data frame."""
    tasks = tasks.to_numpy() if hasattr(tasks, "to_numpy") else tasks
    is_list = isinstance(tasks, (list, tuple)) or (isinstance(tasks, np.ndarray) and tasks.ndim == 1)
    if not is_list or len(tasks) != n:
        raise WrongDimension(f"expected a list of {n} task labels, one for each input, got {tasks!r:.60}")
    return tasks
