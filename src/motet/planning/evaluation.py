"""What a study, or a release, is worth on a table: predictions of rows that were held out, beside baselines.

A study is evaluated as it would be served. Its release is made of some rows of some clients, under its own policy and
with its own noise; *known* clients are then scored at their other rows, and *new* ones, of whom the release has
nothing, at all but a few rows that they keep to themselves. A release that exists already is evaluated on clients who
are all new. ``motet evaluate`` prints this, and ``motet init --from`` reports it of the study that it writes.

Baselines learn from the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from motet.arrays import Array, Index, distinct, is_finite, is_whole_number, numbers, outputs
from motet.engine.admission import admit
from motet.engine.engine import Engine
from motet.errors import EmptyData, InvalidData, WrongDimension
from motet.model.model import Model
from motet.model.tasks import Task
from motet.planning.baselines import baseline_means
from motet.planning.scores import Kind, Scored, gain, notes, verdict
from motet.privacy.ledger import UNIT, Integers, Perturbation, opendp_noise
from motet.release.clients import predict
from motet.release.disclosed import Disclosed
from motet.study.limits import rows_outside
from motet.study.schema import MAX_BASIS_POINTS
from motet.study.study import Study
from motet.tables.rows import Rows, number_labels, places_in_tasks
from motet.text import count

FOLDS = 5  # a fifth of the clients is new in each
HELD_OUT = FOLDS - 1  # a quarter of a known client's rows is held out in each
NEW_ROWS = 3

Advance: TypeAlias = Callable[[], object]  # one step further, of what takes long
Begin: TypeAlias = Callable[[str, str, int], Advance]  # a phase by name, what is counted, and at most how many of it


def unseen(name: str, unit: str, most: int) -> Advance:  # noqa: ARG001
    """Begins a phase that nobody looks at."""
    return lambda: None


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Scores for ``known`` and ``new`` clients, None if there are none; ``subject`` is the release in words.

    ``left_out`` counts rows that took no part, by reason.
    """

    subject: str
    policy: str
    known: Scored | None
    new: Scored | None
    left_out: dict[str, int]

    @property
    def groups(self) -> list[Scored]:
        return [group for group in (self.known, self.new) if group is not None]

    @property
    def is_behind(self) -> bool:
        """Whether the error is larger than some baseline's, for known or for new clients."""
        return any(group.difference > 0 for group in self.groups)

    @property
    def log_score(self) -> float:
        """The mean over all rows, of known and of new clients."""
        scores, rows = zip(*((group.score.log_score, len(group.row)) for group in self.groups))
        return float(np.average(scores, weights=rows))

    def is_surely_better(self, other: Evaluation) -> bool:
        """Whether the log score is better by more than a standard error, on the same rows; clients are independent."""
        nats, standard_error = gain(self.groups, other.groups)
        return nats > standard_error

    @property
    def verdict(self) -> str:
        """One sentence: better than every baseline, not better, or it cannot be told; for known and new clients."""
        return verdict(self.groups)

    @property
    def notes(self) -> list[str]:
        """Sentences on bands that are too narrow or too wide."""
        return notes(self.groups)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        groups = {name: group and group.to_dict() for name, group in (("known", self.known), ("new", self.new))}
        return {
            "subject": self.subject,
            "policy": self.policy,
            **groups,
            "left_out": self.left_out,
            "verdict": self.verdict,
            "notes": self.notes,
        }


@dataclass(frozen=True, eq=False)
class Split:
    """Places of rows: of known clients ``learned`` and ``held_out``, of new ones their ``own`` and the ``others``.

    Held-out rows and others are scored; baselines learn from all the rest.
    """

    learned: Index
    held_out: Index
    own: Index
    others: Index

    @classmethod
    def of(cls, clients: Sequence[Hashable], fold: int | None = 0, *, seed: int = 0, new_rows: int = NEW_ROWS) -> Split:
        """One of five splits at random: over all of them each client is new once, and each row is held out once.

        In each a fifth of the clients is new, and a quarter of a known client's rows is held out, but never its only
        row. A new client has ``new_rows`` of its own, but not all its rows. ``fold=None``: all clients are new.

        ``evaluate`` has the same splits: settings that are chosen by the ``learned`` rows of fold 0 have not seen what
        ``evaluate`` scores with ``folds=1``.
        """
        rng, client = np.random.default_rng(seed), number_labels(list(clients), {})
        sizes, order = np.bincount(client), rng.permutation(len(client))
        place = np.empty(len(client), dtype=np.intp)
        place[order] = places_in_tasks(client[order])  # of a row among its client's, at random
        turn = rng.permutation(len(sizes))[client] % FOLDS  # in which its client is new
        is_new = np.full(len(client), True) if fold is None else turn == fold
        own = place < np.minimum(new_rows, sizes - 1)[client]
        quarter = 0 if fold is None else (fold - turn - 1) % FOLDS
        held_out = (place % HELD_OUT == quarter) & (sizes > 1)[client]
        parts = ~is_new & ~held_out, ~is_new & held_out, is_new & own, is_new & ~own
        return cls(*map(np.flatnonzero, parts))

    def only(self, which: NDArray[np.bool_]) -> Split:
        """Without the rows for which ``which`` is false."""
        return Split(*(part[which[part]] for part in (self.learned, self.held_out, self.own, self.others)))

    @property
    def kept(self) -> Index:
        """What baselines learn from."""
        return np.concatenate([self.learned, self.own])

    @property
    def new(self) -> Index:
        """Those of new clients."""
        return np.concatenate([self.own, self.others])

    @property
    def scored(self) -> Index:
        return np.concatenate([self.held_out, self.others])


def evaluate(
    source: Study | Disclosed,
    clients: Sequence[Hashable] | Array,
    X: Any,
    y: Any,
    noise: Any = None,
    *,
    seed: int = 0,
    new_rows: int = NEW_ROWS,
    folds: int = FOLDS,
    releases: int = 1,
    draw: Perturbation = opendp_noise,
    advance: Advance = lambda: None,
) -> Evaluation:
    """Scores of a study, or of a release, on rows of many clients; of X, rows such as the model has, NaN is missing.

    A study learns anew in each of the ``folds``, one to five of them, which divide the rows by ``seed``. If it is
    private, what is evaluated is the release after so many ``releases`` of the budget, all of the same clients: the
    first is the least exact. ``draw`` adds the noise. After every fold ``advance`` is called.
    """
    _check_whole("new_rows", new_rows, int(isinstance(source, Disclosed)), 10**6)
    _check_whole("folds", folds, 1, FOLDS)
    _check_whole("releases", releases, 1, _planned(source))  # without noise, one release is as good as many
    rows, refused = rows_of(source, clients, X, y, noise)
    if isinstance(source, Study) and not source.private:
        refused |= _unusable(source, rows, ~np.any(list(refused.values()), axis=0))
    left_out = {reason: int(np.count_nonzero(which)) for reason, which in refused.items() if which.any()}
    inside = ~np.any(list(refused.values()), axis=0)
    parts: list[Scored] = []
    for fold in [None] if isinstance(source, Disclosed) else range(folds):
        split = Split.of(rows.task.tolist(), fold, seed=seed, new_rows=new_rows).only(inside)
        if isinstance(source, Disclosed):
            parts += _scored(rows, split, source)
        elif len(split.learned):
            engine = _engine(source.model, rows, split.learned)
            parts += _scored(rows, split, _released(source, engine, releases, draw), engine)
        advance()
    if not parts:
        reasons = ", ".join(f"{count(n, 'row')} left out ({reason})" for reason, n in left_out.items())
        raise EmptyData(f"nothing to score: expected rows of several clients{reasons and f'; {reasons}'}")
    policy = source.policy if isinstance(source, Disclosed) else source.release.policy
    return Evaluation(_subject(source, releases), policy, _joined(parts, "known"), _joined(parts, "new"), left_out)


def _check_whole(name: str, value: Any, low: int, high: int) -> None:
    if not is_whole_number(value) or not low <= value <= high:
        raise InvalidData(f"{name} must be a whole number from {low} to {high}, got {value!r:.40}")


# --- the table ---


def rows_of(
    source: Study | Disclosed, clients: Sequence[Hashable] | Array, X: Any, y: Any, noise: Any
) -> tuple[Rows, dict[str, NDArray[np.bool_]]]:
    """All rows of a table, and which of them are left out, by reason."""
    X, y = numbers(X, "inputs"), numbers(y, "outputs")
    clients = clients.tolist() if isinstance(clients, np.ndarray) else clients
    if X.ndim != 2 or y.shape != (len(clients),) or len(X) != len(y):
        raise WrongDimension(
            f"expected a client, a row of inputs and an output for each example, got {len(clients)} clients, "
            f"inputs of shape {X.shape} and outputs of shape {y.shape}"
        )
    missing = ~(is_finite(X).all(axis=1) & is_finite(y))
    X = source.model.rows(np.where(missing[:, None], 0.0, X), source.dimension)
    rows = Rows.of(clients, X, *outputs(np.where(missing, 0.0, y), noise, len(X)))
    refused = {"missing value": missing}
    if isinstance(source, Disclosed):
        return rows, refused
    present = np.flatnonzero(~missing)
    for reason, outside in rows_outside(source, rows.task[present], *rows.triples(present)).items():
        refused[reason] = np.zeros(len(X), dtype=bool)
        refused[reason][present] = outside
    return rows, refused


def _engine(model: Model, rows: Rows, which: Index) -> Engine:
    """That has learned some of the rows."""
    engine = Engine(model)
    engine.learn_many(rows.task[which], *rows.triples(which))
    return engine


def seeded_noise(*seed: int) -> Perturbation:
    """The same in every run; for clients to whom nothing is promised: those of a pilot, and simulated ones."""
    rng = np.random.default_rng(seed)

    def draw(total: Integers, deviation: float) -> Integers:
        return total + np.rint(deviation * rng.normal(size=len(total))).astype(np.int64)

    return draw


# --- releases ---


def _planned(source: Study | Disclosed) -> int:
    """How many releases a budget has; one if there is no budget."""
    ledger = source.ledger() if isinstance(source, Study) else None
    return 1 if ledger is None else ledger.releases


def _subject(source: Study | Disclosed, releases: int) -> str:
    if isinstance(source, Disclosed):
        return f"release {source.version}, {'private' if source.policy == 'private' else 'without noise'}"
    if not source.private:
        return "a release without noise"
    order = "the first" if releases == 1 else f"number {releases}"
    return f"{order} of {count(_planned(source), 'private release')}, ε = {source.release.epsilon:g}"


def _unusable(study: Study, rows: Rows, inside: NDArray[np.bool_]) -> dict[str, NDArray[np.bool_]]:
    """Rows of clients that an exact release would leave out, by reason."""
    if not inside.any():
        return {}
    left_out: dict[Any, str] = admit(_engine(study.model, rows, np.flatnonzero(inside)), max_inputs=MAX_BASIS_POINTS)
    reason_of = np.array([left_out.get(client, "") for client in range(len(rows.labels))])[rows.task]
    return {reason: (reason_of == reason) & inside for reason in dict.fromkeys(left_out.values())}


def _released(study: Study, engine: Engine, releases: int, draw: Perturbation) -> Disclosed:
    """The last of so many releases of an engine, under the study's policy."""
    mechanism, ledger = study.mechanism(), study.ledger()
    if mechanism is None or ledger is None:
        return engine.disclose()
    total = mechanism.clip.total(engine, ledger.retired(engine.tasks))
    noisy = [draw(total, ledger.scale * UNIT) for _ in range(releases)]
    return mechanism.disclose(noisy, scale=ledger.scale, version=releases, retiring=ledger.per == "client")


# --- predictions ---


def _scored(rows: Rows, split: Split, release: Disclosed, engine: Engine | None = None) -> list[Scored]:
    """Known and new clients, if there are any, with the predictions that they would have and those of the baselines."""
    if not len(split.kept) or not len(split.scored):
        return []
    item = None if release.model.catalogue is None else distinct(rows.X)[1]
    baselines = baseline_means(rows.task, rows.X, rows.y, split.kept, item)
    scored = []
    kinds: dict[Kind, tuple[Index, Index]]
    kinds = {"known": (split.learned, split.held_out), "new": (split.own, split.others)}
    for kind, (own, at) in kinds.items():
        if not len(at):
            continue
        if kind == "known" and engine is not None and release.policy == "exact":
            mean, std = engine.predict_many(rows.task[at], rows.X[at], return_std=True)
        else:  # a private release keeps its clipped part of an active client, who is predicted as a passive one
            mean, std = _passive(rows, own, at, release)
        noise = (release.sigma2 or 0.0) * release.model.noise.observation(rows.noise[at])
        of_baselines = {name: means[at] for name, means in baselines.items()}
        scored.append(Scored(kind, at, rows.task[at], rows.y[at], mean, np.sqrt(std**2 + noise), of_baselines))
    return scored


def _passive(rows: Rows, own: Index, at: Index, release: Disclosed) -> tuple[Array, Array]:
    """Means and standard deviations at some rows, each client's from its own rows."""
    mean, std = np.empty(len(at)), np.empty(len(at))
    places = by_client(rows.task[at])
    owned = {client: own[which] for client, which in by_client(rows.task[own]).items()}
    requests = (
        (Task.of(*rows.triples(owned.get(client, own[:0]))), rows.X[at[which]]) for client, which in places.items()
    )
    for which, predicted in zip(places.values(), predict(release, requests)):
        mean[which], std[which] = predicted
    return mean, std


def by_client(client: Index) -> dict[int, Index]:
    """The places of every client's rows."""
    order = np.argsort(client, kind="stable")
    labels, start = np.unique(client[order], return_index=True)
    return dict(zip(labels.tolist(), np.split(order, start[1:])))


def _joined(parts: Iterable[Scored], kind: Kind) -> Scored | None:
    """One kind of clients, of all folds."""
    alike = [part for part in parts if part.kind == kind]
    return Scored.joined(alike) if alike else None
