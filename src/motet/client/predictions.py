"""Predictions of many clients at a table's inputs: each at its own rows, or all of them at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from motet.arrays import Array, outputs, slices
from motet.client.tables import Examples, Inputs
from motet.model.tasks import Task
from motet.release import clients as many
from motet.release.clients import Member
from motet.release.coefficients import Coefficients
from motet.release.disclosed import Disclosed

AT_ONCE = 2000  # inputs that are predicted at once, for the sake of memory

Known: TypeAlias = tuple[Disclosed, Member]  # a client, with the release that it is predicted from


class Prediction(NamedTuple):
    client: str
    row: int  # its number in the table of inputs
    mean: float
    std: float


def passive(release: Disclosed, examples: Mapping[str, Examples]) -> dict[str, Known]:
    """Clients whose examples stay here."""
    found: dict[str, Known] = {}
    for client, own in examples.items():
        X = release.model.rows(own.X, release.landmarks.shape[1])
        found[client] = release, Task.of(X, *outputs(own.y, own.noise, len(X)))
    return found


def rows_of(at: Inputs, clients: Iterable[str]) -> dict[str, Sequence[int]]:
    """At which rows each client is to be predicted: at its own where the table has a column client, else at all."""
    if "client" in at.table.columns:
        return dict(at.table.groups("client"))
    return dict.fromkeys(clients, range(len(at.X)))


def predict(
    release: Disclosed,
    known: Mapping[str, Known],
    at: Inputs,
    rows: Mapping[str, Sequence[int]],
    advance: Callable[[int], object],
    *,
    top: int | None = None,
    observation: bool = False,
) -> list[Prediction]:
    """Every client at its rows, or the ``top`` of them; one that is not known is a new individual.

    They come in the order of the table where each row is one client's, else client by client.
    """
    X = release.model.rows(at.X, release.landmarks.shape[1])
    nobody = release, Task.empty(X.shape[1])
    clients = {client: known.get(client, nobody) for client in rows}
    found: list[Prediction] = []
    for client, (mean, std) in _predicted(clients, rows, X, advance, observation).items():
        kept = range(len(mean)) if top is None else _best(at, rows[client], mean, clients[client], top)
        found += (Prediction(client, rows[client][k], float(mean[k]), float(std[k])) for k in kept)
    shared = any(isinstance(own, range) for own in rows.values())
    return found if shared or top is not None else sorted(found, key=lambda one: one.row)


def _predicted(
    clients: Mapping[str, Known],
    rows: Mapping[str, Sequence[int]],
    X: Array,
    advance: Callable[[int], object],
    observation: bool,
) -> dict[str, Array]:
    """Means and standard deviations of each client at its rows of X."""
    found = {client: np.empty((2, len(rows[client]))) for client in clients}
    for run in slices(max(map(len, rows.values()), default=0), AT_ONCE):
        whole = X[run]  # the same for all who ask for it
        for release, group in _by_release(clients, [client for client in clients if run.start < len(rows[client])]):
            inputs = (whole if isinstance(rows[c], range) else X[rows[c][run]] for c in group)
            asked = zip((clients[c][1] for c in group), inputs)
            for client, answer in zip(group, many.predict(release, asked, observation)):
                found[client][:, run] = answer
                advance(len(answer[0]))
    return found


def _by_release(clients: Mapping[str, Known], chosen: Iterable[str]) -> Iterable[tuple[Disclosed, list[str]]]:
    """Clients by the release that they know."""
    found: dict[str, tuple[Disclosed, list[str]]] = {}
    for client in chosen:
        release = clients[client][0]
        found.setdefault(release.digest, (release, []))[1].append(client)
    return found.values()


def _best(at: Inputs, rows: Sequence[int], mean: Array, client: Known, top: int) -> list[int]:
    """Which of the rows are the best ones: each item once, and none that the client has rated."""
    release, own = client
    assert release.model.catalogue is not None
    seen = set(release.model.catalogue.name_rows(own.inputs if isinstance(own, Coefficients) else own.X))
    best: list[int] = []
    for k in np.argsort(-mean, kind="stable").tolist():
        if len(best) < top and at.X[rows[k]] not in seen:
            seen.add(at.X[rows[k]])
            best.append(k)
    return best
