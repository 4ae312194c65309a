"""Clients that send, replace and remove without pause and note every answer; and one that watches releases."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Self

import httpx
import numpy as np

from motet.client.client import Enrolled
from tests.scenarios.harness import END, Place

Triple = tuple[float, float, float]  # x, y, noise
MAX_EXAMPLES = 500  # that a client keeps


class Worker:
    """Repeats one step in a thread; an error there is raised at the end."""

    def __init__(self) -> None:
        self._ending = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def step(self) -> None:
        raise NotImplementedError

    def _run(self) -> None:
        try:
            while not self._ending.is_set():
                self.step()
        except BaseException as error:
            self._error = error

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ending.set()
        self._thread.join(END)
        if error is None:
            assert not self._thread.is_alive(), "no answer in time"
            self.check()

    def check(self) -> None:
        if self._error is not None:
            raise self._error


class Sender(Worker):
    """One client. ``held`` are the examples that the server acknowledged, ``answers`` how often it answered."""

    def __init__(self, place: Place, person: Enrolled, seed: int) -> None:
        super().__init__()
        self.id = person.id
        self.held: dict[str, Triple] = {}
        self.answers = 0
        self._ever: dict[str, Triple] = {}
        self._rng = np.random.default_rng(seed)
        self._client = place.client(person.token)

    def __exit__(self, *what: object) -> None:
        super().__exit__(*what)  # type: ignore[arg-type]
        self._client.close()

    def step(self) -> None:
        chosen = self._rng.uniform()
        if self.held and (chosen < 0.1 or len(self.held) > MAX_EXAMPLES):
            id = str(self._rng.choice(list(self.held)))
            self._client.remove(id)
            del self.held[id]
        elif self.held and chosen < 0.2:
            id, new = str(self._rng.choice(list(self.held))), self._triple()
            self._client.replace(id, [new[0]], *new[1:])
            self.held[id] = new
        else:
            self._send()
        self.answers += 1

    def _send(self) -> None:
        """New examples, and ids that were sent before, also such as were removed or replaced since."""
        new = {f"e{len(self._ever) + k}": self._triple() for k in range(int(self._rng.integers(1, 4)))}
        known = [str(id) for id in self._rng.choice(list(self._ever), size=2)] if self._ever else []
        batch = {id: self._ever[id] for id in known} | new
        X, y, noise = zip(*batch.values())
        done = self._client.send_many([[x] for x in X], y, noise, list(batch))
        self.held |= new
        self._ever |= new
        assert done.accepted + done.duplicates == len(batch)
        assert done.count == len(self.held)

    def _triple(self) -> Triple:
        x, y, noise = self._rng.uniform(size=3).tolist()
        return x, 4 * y - 2, 0.1 + noise


class Watcher(Worker):
    """Anyone who downloads: a version's bytes are always the same, and versions never go back."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.seen: dict[int, str] = {}
        self._http, self._last = httpx.Client(base_url=place.url, timeout=END), 0

    def __exit__(self, *what: object) -> None:
        super().__exit__(*what)  # type: ignore[arg-type]
        self._http.close()

    def step(self) -> None:
        try:
            answer = self._http.get("/v1/disclosed")
        except httpx.TransportError:
            self._ending.wait(0.02)
            return
        if answer.status_code == 200:
            version = int(answer.headers["ETag"].strip('"'))
            digest = hashlib.sha256(answer.content).hexdigest()
            assert self.seen.setdefault(version, digest) == digest
            assert version >= self._last
            self._last = version
        self._ending.wait(0.05)


@contextmanager
def load(place: Place, senders: Sequence[Sender]) -> Iterator[Watcher]:
    with Watcher(place) as watcher:
        for sender in senders:
            sender.__enter__()
        try:
            yield watcher
        except BaseException as error:
            for sender in senders:
                sender.__exit__(type(error), error, None)
            raise
        for sender in senders:
            sender.__exit__(None, None, None)
