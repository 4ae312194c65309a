"""Writes the files that ``test_before.py`` opens: studies of the version before, and the answers that it gave.

Run it with the Python of an environment in which that version is installed, and put the folder here as ``before``:

    python make.py FOLDER

It uses public names, commands and calls of ``motet`` alone, so that it runs with every later version too. It takes some
minutes, most of them waiting for private releases. Each of the ``STUDIES`` has a folder with

    study.toml, study.db, items.csv    the study after some releases: clients, one of them revoked and one forgotten;
                                       examples, some of them replaced or removed; a ledger
    backup.zip                         its backup
    release.safetensors                its last release
    answers.json                       what server, commands and predictions answer then, and what comes after

and ``landmarks`` has a release that no server made. The tokens open nothing but these studies. Their next release is
due in a hundred years, so that nothing changes until a test makes it.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx

from motet import Client, Disclosed, Engine, Landmarks, Model
from motet.kernels import RBF, DotProduct

OPERATOR = "the-operators-token-of-these-files"
NAMES = ("ann", "bob", "cem", "dora", "eve")
SOON, LATE = "5s", "36500d"  # between releases
ITEMS = ["apple", "fig", "pear, green", "plum", "quince", "Ölbaum", "lime", "kiwi"]
POINTS = [[0.0, 0.5], [1.0, -1.0], [-1.5, 1.25], [0.25, 0.75], [1.75, 1.5], [-0.5, -0.5], [1.25, 0.0], [-1.0, 2.0]]
MODEL = """[study]
name = "Before"
[model]
alpha = 0.4
lam = 0.2
sigma2 = 0.8
common = { kernel = "rbf", length_scale = 0.9 }
individual = { kernel = "sum", of = [{ kernel = "dot_product", sigma_0 = 0.5 }, { kernel = "constant", value = 0.3 }] }
[limits]
y = [-10.0, 10.0]
examples_per_client = 50
"""
NUMBERS = "[inputs]\ndimension = 2\nbounds = [-2.0, 2.0]\n"
CATALOGUE = '[inputs]\ncatalogue = "items.csv"\n[basis]\nkind = "eigen"\nrank = 4\n'
GRID = '[basis]\nkind = "landmarks"\ngrid = { from = -2.0, to = 2.0, count = 3 }\n'
PRIVATE = '[release]\npolicy = "private"\nepsilon = 3.0\nreleases = 12\n'
STUDIES = {
    "exact": MODEL + NUMBERS + '[release]\npolicy = "exact"\n',
    "private": MODEL + CATALOGUE + PRIVATE,
    "per-client": MODEL + NUMBERS + GRID + PRIVATE + 'per = "client"\n',
}
CALLS = {
    "operator": ("/v1/study", "/v1/clients"),
    "ann": ("/v1/me", "/v1/me/examples", "/v1/me/coefficients"),
}
OWN = ([0, 3, 3, 5], [1.0, -0.5, 0.25, 2.0], [1.0, 0.5, 2.0, 1.0])  # of a passive client: inputs by number, y, noise
MORE = (7, 2.5, 0.5)  # what bob sends at last


# --- the program ---


def motet(*arguments: object) -> Any:
    """What a command prints, as JSON."""
    command = [sys.executable, "-m", "motet", *map(str, arguments)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


@contextmanager
def served(study: Path) -> Iterator[str]:
    """The address of a study that is served until the end."""
    environment = os.environ | {"MOTET_OPERATOR_TOKEN": OPERATOR}
    url = f"http://127.0.0.1:{study.read_text(encoding='utf-8').split('port = ')[1].strip()}"
    with subprocess.Popen([sys.executable, "-m", "motet", "serve", str(study)], env=environment) as server:
        try:
            wait(lambda: is_ready(url))
            yield url
        finally:
            server.terminate()


def is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz").status_code == 200
    except httpx.TransportError:
        return False


def wait(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 90
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


# --- a study ---


class Maker:
    """A study in a folder. Under ``exact`` releases are asked for, else they come by the clock."""

    def __init__(self, name: str, folder: Path, every: str) -> None:
        self.folder, self.path, self.private = folder, folder / "study.toml", name != "exact"
        self.inputs: list[Any] = ITEMS if name == "private" else POINTS
        folder.mkdir()
        rows = [f'"{item}",{k / 4},{(k * k) % 5 / 4}' for k, item in enumerate(ITEMS)]
        if name == "private":
            (folder / "items.csv").write_text("\n".join(["name,a,b", *rows, ""]), encoding="utf-8")
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        text = f'{STUDIES[name]}every = "{every}"\n[server]\nport = {port}\n'
        self.path.write_text(text, encoding="utf-8")

    def live(self) -> None:
        """Clients come, send, change their minds and go, over some releases; the next is due."""
        with served(self.path) as url, Client(url, OPERATOR) as operator:
            enrolled = operator.enroll(NAMES)
            self.tokens = {one.name: one.token for one in enrolled}
            self.ids = {one.name: one.id for one in enrolled}
            ann, bob, cem, _, eve = clients = [operator.with_token(one.token) for one in enrolled]
            for k, client in enumerate(clients):
                X = self.inputs[k : k + 4]
                client.send_many(X, [round(0.5 * k - 0.3 * n + (n * k) % 3, 2) for n in range(4)], ids=list("abcd"))
            self.release(operator)
            ann.remove("b")
            bob.replace("a", self.inputs[6], -1.5, 0.5)
            eve.forget_me()
            operator.revoke(self.ids["dora"])
            self.release(operator)
            ann.send(self.inputs[5], 1.25, 0.5, "f")
            cem.send_many([self.inputs[2]] * 2, [0.1, 0.7], [2.0, 0.25], ["again", "and again"])
            if not self.private:
                self.release(operator)
        text = self.path.read_text(encoding="utf-8")
        self.path.write_text(text.replace(f'"{SOON}"', f'"{LATE}"'), encoding="utf-8")

    def release(self, operator: Client) -> None:
        if not self.private:
            operator.release_now()
            return
        before = operator.study()["version"]
        wait(lambda: operator.study()["version"] > before)

    def answers(self) -> dict[str, Any]:
        """After the last release, and one example of ann's that is not in it."""
        with served(self.path) as url, Client(url, OPERATOR) as operator:
            wait(lambda: is_settled(operator.study()))
            ann = operator.with_token(self.tokens["ann"])
            ann.send(self.inputs[1], -0.75, 1.0, "g")
            release = operator.disclosed()
            release.save(self.folder / "release.safetensors")
            found = {
                "operator": OPERATOR,
                "tokens": self.tokens,
                "ids": self.ids,
                "responses": {
                    path: got(f"{url}{path}", self.tokens.get(who, OPERATOR))
                    for who, paths in CALLS.items()
                    for path in paths
                },
                "active": predictions(ann.estimate(), self.inputs),
                **release_answers(release, self.inputs),
            }
        found["exports"] = {name: motet("export", self.path, id) for name, id in self.ids.items()}
        found["verify"] = motet("verify", self.path, "--json")
        return found

    def pack(self, folder: Path) -> None:
        """Its files as they are now."""
        with closing(sqlite3.connect(self.folder / "study.db", isolation_level=None)) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            database.execute("VACUUM")
        motet("backup", self.path, self.folder / "backup.zip", "--json")
        shutil.copytree(self.folder, folder)

    def after(self) -> dict[str, Any]:
        """The next release without noise, which has what ann sent since, and one more example of bob's."""
        with served(self.path) as url, Client(url, OPERATOR) as operator:
            k, y, noise = MORE
            bob = operator.with_token(self.tokens["bob"])
            bob.send(self.inputs[k], y, noise, "more")
            version = operator.release_now()
            return {"version": version, "bob": predictions(bob.estimate(), self.inputs)}

    def budgets(self) -> dict[int, dict[str, Any]]:
        """What is spent after each release, by how many are made, until all are."""
        found: dict[int, dict[str, Any]] = {}
        with served(self.path) as url, Client(url, OPERATOR) as operator:
            (ann,) = operator.enroll(["ann"])
            operator.with_token(ann.token).send(self.inputs[0], 1.0)
            while (budget := operator.study()["budget"])["made"] < budget["releases"]:
                found[budget["made"]] = budget
                time.sleep(0.05)
        return found


def is_settled(study: dict[str, Any]) -> bool:
    """No release is due for long, and the server has the last one."""
    budget = study["budget"]
    return study["next_release"] > time.time() + 1e6 and (budget is None or budget["made"] == study["version"])


def got(url: str, token: str) -> Any:
    return httpx.get(url, headers={"Authorization": f"Bearer {token}"}).raise_for_status().json()


def release_answers(release: Disclosed, inputs: list[Any]) -> dict[str, Any]:
    """What anyone makes of a release: the average, and with examples of one's own."""
    at, y, noise = OWN
    mean, std = release.average(inputs, return_std=True)
    return {
        "digest": release.digest,
        "model": release.model.to_json(),
        "average": {"mean": mean.tolist(), "std": std.tolist()},
        "passive": predictions(release.estimate([inputs[k] for k in at], y, noise), inputs),
    }


def predictions(estimate: Any, inputs: list[Any]) -> dict[str, list[float]]:
    mean, std = estimate.predict(inputs, return_std=True)
    _, observed = estimate.predict(inputs, return_std=True, observation=True)
    return {"mean": mean.tolist(), "std": std.tolist(), "observation": observed.tolist()}


def landmarks(folder: Path) -> None:
    """A release over a fixed grid without noise, whose σ² is estimated and whose bias is linear."""
    model = Model(RBF([0.9, 1.5]), DotProduct(0.5), alpha=0.4, lam=0.2, bias="linear", basis=Landmarks(POINTS[:5]))
    engine = Engine(model, individual={"cem": RBF(0.7)})
    for k, name in enumerate(NAMES):
        engine.learn_many([name] * 5, POINTS[k % 4 : k % 4 + 5], [round(0.5 * k - 0.3 * n, 2) for n in range(5)])
    release = engine.disclose()
    folder.mkdir()
    release.save(folder / "release.safetensors")
    write(folder / "answers.json", release_answers(release, POINTS))


def write(path: Path, answers: Any) -> None:
    path.write_text(json.dumps(answers, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def main(folder: Path) -> None:
    folder.mkdir()
    landmarks(folder / "landmarks")
    with tempfile.TemporaryDirectory() as place:
        for name in STUDIES:
            maker = Maker(name, Path(place, name), LATE if name == "exact" else SOON)
            maker.live()
            answers = maker.answers()
            maker.pack(folder / name)
            budgets = Maker(name, Path(place, f"{name} budget"), "1s").budgets if maker.private else None
            answers["after"] = maker.after() if budgets is None else {"budgets": budgets()}
            write(folder / name / "answers.json", answers)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
