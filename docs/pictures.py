"""Draws the pictures of README and docs: python docs/pictures.py"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
import matplotlib.pyplot as plt

from motet import Engine, MixedEffectRegressor, Model
from motet.arrays import Array, Index
from motet.kernels import RBF, ConstantKernel, DotProduct, Linear
from motet.music.figures import figures, render
from motet.music.reproduce import run
from motet.music.simulation import artists

HERE = Path(__file__).parent / "img"
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
    """Three clients with five samples each: alone, and with the average of two hundred."""
    truth, whose, when, y = sampled_curves(clients=200, examples=5, seed=4)
    engine = Engine(MODEL)
    engine.learn_many(whose, TIMES[when], y)
    release = engine.disclose()
    fig, axes = plt.subplots(1, 3, figsize=(10, 3.2), sharey=True, layout="constrained")
    for ax, client in zip(axes, (1, 2, 3)):
        own = whose == client
        estimate = release.active_estimate(engine.coefficients(client))
        mean, std = estimate.predict(TIMES, return_std=True)
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
            kernels = ConstantKernel(float(np.e)) * RBF(1.0), DotProduct(0.0)
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


if __name__ == "__main__":
    curves()
    groups()
    ratings()
    music()
