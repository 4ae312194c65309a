"""Clients that send, replace and remove and note every answer; others that leave, follow, watch and ask."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

import httpx
import numpy as np

from motet.client.client import Enrolled
from motet.errors import MotetError
from tests.scenarios.harness import END, Place

Triple = tuple[float, float, float]  # x, y, noise
MAX_EXAMPLES = 500  # that a client keeps
PAUSE_SECONDS = 0.05  # between two requests of a client: the machine has other work too
STREAM_SECONDS = 5.0  # without a line, after which a stream is opened again


class Worker:
    """Repeats one step in a thread; an error there is raised at the end."""

    answers = 0  # how often the server did what was asked

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
    """One client. ``held`` are the examples that the server acknowledged."""

    def __init__(self, place: Place, person: Enrolled, seed: int) -> None:
        super().__init__()
        self.id = person.id
        self.held: dict[str, Triple] = {}
        self.done: Counter[str] = Counter()
        self._ever: dict[str, Triple] = {}
        self._rng = np.random.default_rng(seed)
        self._client = place.client(person.token)

    def __exit__(self, *what: object) -> None:
        super().__exit__(*what)  # type: ignore[arg-type]
        self._client.close()

    def step(self) -> None:
        chosen, call = self._rng.uniform(), "send"
        if self.held and (chosen < 0.1 or len(self.held) > MAX_EXAMPLES):
            call, id = "remove", str(self._rng.choice(list(self.held)))
            self._client.remove(id)
            del self.held[id]
        elif self.held and chosen < 0.2:
            call, id, new = "replace", str(self._rng.choice(list(self.held))), self._triple()
            self._client.replace(id, [new[0]], *new[1:])
            self.held[id] = new
        else:
            self._send()
        self.done[call] += 1
        self.answers += 1
        self._ending.wait(PAUSE_SECONDS)

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
        self.longest_wait = 0.0  # seconds between two downloads, since ``begin``
        self._http, self._last = httpx.Client(base_url=place.url, timeout=END), 0
        self._at = time.monotonic()

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
            self._last, now = version, time.monotonic()
            self.longest_wait, self._at = max(self.longest_wait, now - self._at), now
            self.answers += 1
        self._ending.wait(2 * PAUSE_SECONDS)

    def begin(self) -> None:
        """Measure waits from now on."""
        self.longest_wait, self._at = 0.0, time.monotonic()


class Leaver(Worker):
    """Clients who enroll, send and are forgotten, one after the other: nothing of them is left."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self._place, self._attempts = place, 0

    def step(self) -> None:
        self._attempts += 1
        try:
            with self._place.operator() as operator:
                (person,) = operator.enroll([f"leaver {self._attempts}"])
        except MotetError:  # whether it was enrolled nobody knows: a client without examples, or none
            self._ending.wait(0.05)
            return
        with self._place.client(person.token) as client:
            assert client.send_many([[0.25], [0.75]], [1.0, -1.0], ids=["a", "b"]).count == 2
            client.forget_me()
        self.answers += 1
        self._ending.wait(0.2)


class Follower(Worker):
    """Anyone who follows the stream: versions never go back."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self._http, self._last = httpx.Client(base_url=place.url, timeout=STREAM_SECONDS), 0

    def __exit__(self, *what: object) -> None:
        super().__exit__(*what)  # type: ignore[arg-type]
        self._http.close()

    def step(self) -> None:
        try:
            with self._http.stream("GET", "/v1/stream") as response:
                for line in response.iter_lines():
                    if line.startswith("data:"):
                        version = int(json.loads(line.removeprefix("data:"))["version"])
                        assert version >= self._last
                        self._last = version
                        self.answers += 1
                    if self._ending.is_set():
                        return
        except httpx.TransportError:
            self._ending.wait(0.05)


class Requester(Worker):
    """The operator, who asks for releases beside those of the clock."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self._operator = place.operator()

    def __exit__(self, *what: object) -> None:
        super().__exit__(*what)  # type: ignore[arg-type]
        self._operator.close()

    def step(self) -> None:
        try:
            self._operator.release_now()
        except MotetError:  # whether it was requested nobody knows
            self._ending.wait(0.1)
            return
        self.answers += 1
        self._ending.wait(0.5)


class Bystander(Worker):
    """Another client, who sends and reads, asks once and is not patient: it notes what it is told.

    An example that was not acknowledged is sent again: so it is stored once, whether or not it was stored before.
    """

    def __init__(self, place: Place, person: Enrolled) -> None:
        super().__init__()
        self.id = person.id
        self.held: dict[str, Triple] = {}
        self.refusals: list[str] = []
        self.lost: list[str] = []  # connections that ended without an answer
        self.token = person.token
        headers = {"Authorization": f"Bearer {person.token}"}
        self._http = httpx.Client(base_url=place.url, headers=headers, timeout=END)

    def __exit__(self, *what: object) -> None:
        super().__exit__(*what)  # type: ignore[arg-type]
        if what[0] is None:
            assert self._sends(), "the last example is stored"
        self._http.close()

    def begin(self) -> None:
        """What is noted is of the fault, and not of what came before."""
        self.refusals.clear()
        self.lost.clear()

    def step(self) -> None:
        self.answers += self._sends() and self._ask("GET", "/v1/me")
        self._ending.wait(0.05)

    def _sends(self) -> bool:
        id = str(len(self.held))
        triple = (len(self.held) % 7 / 7, 1.0, 1.0)
        body = {"examples": [{"id": id, "x": [triple[0]], "y": triple[1], "noise": triple[2]}]}
        if self._ask("POST", "/v1/examples", json=body):
            self.held[id] = triple
            return True
        return False

    def _ask(self, method: str, path: str, **content: Any) -> bool:
        try:
            answer = self._http.request(method, path, **content)
        except httpx.TransportError as error:
            self.lost.append(f"{method} {path}: {error!r}")
            return False
        if answer.status_code != 200:
            self.refusals.append(f"{method} {path}: {answer.status_code} {answer.json()['error']['message']}")
        return answer.status_code == 200


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
