"""Draws the pictures of README and docs: python docs/pictures.py"""

from __future__ import annotations

import csv
import math
import re
import runpy
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib as mpl
import numpy as np
from typer.testing import CliRunner

mpl.use("Agg")
import matplotlib.pyplot as plt

from motet import Engine, MixedEffectRegressor, Model
from motet.arrays import Array, Index
from motet.cli.app import app
from motet.client.predictions import Query, Source, predict
from motet.client.tables import read_clients, read_inputs
from motet.kernels import RBF, ConstantKernel, DotProduct, Linear
from motet.music.figures import figures, render
from motet.music.reproduce import run
from motet.music.simulation import artists
from motet.plots.predictions import save
from motet.privacy import release
from motet.study import Study
from motet.tables.roles import Layout

HERE = Path(__file__).absolute().parent / "img"
AVERAGE, CLIENT, TRUTH = "#0072B2", "#D55E00", "#555555"  # colour-blind safe

ALPHA, NOISE = 0.6, 0.05
COMMON, INDIVIDUAL = RBF(0.15), RBF(0.3)
MODEL = Model(COMMON, INDIVIDUAL, alpha=ALPHA, lam=NOISE, sigma2=1.0)
TIMES = np.linspace(0.0, 1.0, 41)[:, None]


def sampled_curves(clients: int, examples: int, seed: int) -> tuple[Array, Index, Index, Array]:
    """Curves over TIMES drawn from the model's own prior, and samples of them: whose, when, what."""
    rng = np.random.default_rng(seed)
    half = [np.linalg.cholesky(k(TIMES) + 1e-10 * np.eye(len(TIMES))) for k in (COMMON, INDIVIDUAL)]
    average = np.sqrt(ALPHA) * half[0] @ rng.normal(size=len(TIMES))
    curves = average + np.sqrt(1 - ALPHA) * rng.normal(size=(clients, len(TIMES))) @ half[1].T
    client = np.repeat(np.arange(clients), examples)
    when = rng.integers(len(TIMES), size=clients * examples)
    order = rng.permutation(len(client))
    client, when = client[order], when[order]
    return curves, client, when, curves[client, when] + np.sqrt(NOISE) * rng.normal(size=len(client))


def curves() -> None:
    """Three of two hundred clients with five samples each, with the average of all; and what all bands cover."""
    truth, whose, when, y = sampled_curves(clients=200, examples=5, seed=1)
    engine = Engine(MODEL)
    engine.learn_many(whose, TIMES[when], y)
    release = engine.disclose()
    predicted = [release.active_estimate(engine.coefficients(k)).predict(TIMES, return_std=True) for k in range(200)]
    covered = np.mean([np.abs(curve - mean) < 1.96 * std for curve, (mean, std) in zip(truth, predicted)])
    fig, axes = plt.subplots(1, 3, figsize=(10, 3.5), sharey=True, layout="constrained")
    for ax, client in zip(axes, (1, 2, 3)):
        own, (mean, std) = whose == client, predicted[client]
        t = TIMES[:, 0]
        ax.fill_between(t, mean - 1.96 * std, mean + 1.96 * std, color=CLIENT, alpha=0.2, lw=0, label="95 % band")
        ax.plot(t, release.average(TIMES), color=AVERAGE, ls="--", label="average of all")
        ax.plot(t, mean, color=CLIENT, label="this client")
        ax.plot(t, truth[client], color=TRUTH, lw=1, ls=":", label="truth")
        ax.plot(t[when[own]], y[own], "o", color="black", ms=5, label="its five samples")
        ax.set(title=f"client {client}", xlabel="time")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("response")
    axes[2].legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    fig.suptitle(f"Three of 200 clients. The bands of all cover {covered:.0%} of their true curves.", fontsize=11)
    fig.savefig(HERE / "curves.png", dpi=110)


def groups() -> None:
    """Rows of five clinics: two that were fitted, one never seen, and the average."""
    rng = np.random.default_rng(0)
    clinic, dose = rng.integers(5, size=150), rng.uniform(0, 3, size=150)
    level = np.linspace(-1, 1, 5)
    y = np.sin(dose) + level[clinic] + 0.1 * rng.normal(size=150)
    reg = MixedEffectRegressor(RBF(1.0), Linear(np.eye(2)), bias="constant")
    reg.fit(dose[:, None], y, task=clinic)
    at = np.linspace(0, 4, 81)[:, None]
    fig, axes = plt.subplots(1, 3, figsize=(10, 3.2), sharey=True, layout="constrained")
    panels = {"known group": np.full(81, 3), "new group": np.full(81, -1), "no group: the average": None}
    for ax, (title, task) in zip(axes, panels.items()):
        mean, std = reg.predict(at, task=task, return_std=True)
        colour = AVERAGE if task is None else CLIENT
        ax.plot(dose, y, ".", color="#bbbbbb", ms=4, label="rows of all groups")
        if title == "known group":
            ax.plot(dose[clinic == 3], y[clinic == 3], ".", color="black", ms=6, label="its own rows")
        ax.fill_between(
            at[:, 0], mean - 1.96 * std, mean + 1.96 * std, color=colour, alpha=0.2, lw=0, label="95 % band"
        )
        ax.plot(at[:, 0], mean, color=colour, label="prediction")
        ax.set(title=title, xlabel="dose")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].legend(frameon=False, fontsize=8, loc="lower left")
    fig.savefig(HERE / "groups.png", dpi=110)


def ratings() -> None:
    """Error of 400 simulated users' tastes against the number of ratings that each gave."""
    rng = np.random.default_rng(1)
    songs = rng.uniform(size=(60, 5)) ** 2
    songs /= np.linalg.norm(songs, axis=1, keepdims=True)
    truth = songs @ [2.0, 0.0, 0.0, 0.0, -2.0] + rng.normal(size=(400, 5)) @ songs.T
    counts = (1, 2, 3, 5, 8, 12)
    ways = {
        "separate (α = 0)": (0.0, "s-", "#009E73"),
        "pooled (α = 1)": (1.0, "^-", AVERAGE),
        "mixed": (0.3, "o-", CLIENT),
    }
    fig, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
    for name, (alpha, style, colour) in ways.items():
        errors = []
        for count in counts:
            picks = np.random.default_rng(2)
            item = np.concatenate([picks.choice(60, size=count, replace=False) for _ in range(400)])
            user = np.repeat(np.arange(400), count)
            y = truth[user, item] + 0.1 * picks.normal(size=len(user))
            kernels = ConstantKernel(math.e) * RBF(1.0), DotProduct(0.0)
            reg = MixedEffectRegressor(*kernels, alpha=alpha, lam=0.02, bias="constant", optimizer=None)
            reg.fit(songs[item], y, task=user)
            found = reg.predict(np.tile(songs, (400, 1)), task=np.repeat(np.arange(400), 60)).reshape(400, 60)
            errors.append(np.sqrt(np.mean((found - truth) ** 2)))
        ax.plot(counts, errors, style, color=colour, label=name)
    ax.set(xlabel="ratings a user gave", ylabel="error of the predicted taste (RMSE)", ylim=(0, None), xticks=counts)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
    fig.savefig(HERE / "ratings.png", dpi=110)


def music() -> None:
    """Two figures of the article's experiment."""
    found = run(artists(), users=3000, examples=5, seed=0)
    for name, figure in (("music-grid", "fig3-grid"), ("music-users", "fig6-users")):
        (HERE / f"{name}.png").write_bytes(render(figures(found)[figure](), "png"))


@contextmanager
def files_of(name: str) -> Iterator[Path]:
    """A folder, the working one, with the files that a page has and those that its simulation writes."""
    page = (HERE.parent / f"{name}.md").read_text(encoding="utf-8")
    with TemporaryDirectory() as folder, chdir(folder):
        for title, body in re.findall(r'^```\w+ title="(\w+\.\w+)"\n(.*?)^```$', page, re.MULTILINE | re.DOTALL):
            Path(title).write_text(body, encoding="utf-8")
        runpy.run_path("simulate.py")
        yield Path(folder)


def motet(command: str) -> None:
    CliRunner().invoke(app, command.split(), catch_exceptions=False)


def of_page(name: str, command: str, picture: str) -> None:
    """The picture of a page, by its files and its command on them."""
    with files_of(name) as folder:
        motet(f"{command} glucose.toml visits.csv --plot {picture}")
        (HERE / picture).write_bytes((folder / picture).read_bytes())


def average() -> None:
    """The picture of docs/own-table.md, with a release that is made here instead of by a server."""
    with files_of("own-table") as folder:
        motet("init study.toml --from visits.csv --client patient --target glucose --inputs hours")
        study = Study.load("study.toml")
        mechanism, ledger = study.mechanism(), study.ledger()
        assert mechanism is not None
        assert ledger is not None
        engine = Engine(study.model)
        with Path("visits.csv").open(encoding="utf-8") as file:
            rows = [row for row in csv.DictReader(file) if row["glucose"]]
        X = [[float(row["hours"])] for row in rows]
        engine.learn_many([row["patient"] for row in rows], X, [float(row["glucose"]) for row in rows])
        release(engine, mechanism, ledger).disclosed.save("release.safetensors")
        Path("hours.csv").write_text("hours\n" + "".join(f"{k / 4}\n" for k in range(49)), encoding="utf-8")
        motet("predict hours.csv --average --release release.safetensors --target glucose --plot average.png")
        (HERE / "average.png").write_bytes((folder / "average.png").read_bytes())


def prediction() -> None:
    """The picture of docs/tables.md: one patient's curve, from a release of all visits."""
    with files_of("tables"):
        model = Study.load("study.toml").model
        layout = Layout(columns=model.columns, client="patient", target="glucose", skip_missing=True)
        engine = Engine(model)
        for patient, visits in read_clients(Path("visits.csv"), layout).items():
            engine.learn_many([patient] * len(visits.y), model.rows(visits.X), visits.y)
        Path("at.csv").write_text("day,sex,hours\n2026-06-01,f,0\n2026-06-01,f,12\n", encoding="utf-8")
        disclosed, inputs = engine.disclose(), read_inputs(Path("at.csv"), layout)
        source = Source(disclosed, engine.coefficients("P0", disclosed))
        save(predict(Query(disclosed, inputs, {"": source}, {"": range(2)}), lambda _: None), HERE / "predict.png")


if __name__ == "__main__":
    curves()
    groups()
    ratings()
    music()
    of_page("evaluate", "evaluate", "evaluation.png")
    of_page("check", "check", "forecast.png")
    average()
    prediction()
