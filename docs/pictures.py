"""Draws the pictures of README and docs: python docs/pictures.py"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

from motet import Engine
from motet.demo import MODEL, TIMES, simulate

HERE = Path(__file__).parent / "img"
AVERAGE, CLIENT, TRUTH = "#0072B2", "#D55E00", "#555555"  # colour-blind safe


def curves() -> None:
    """Three clients with five samples each: alone, and with the average of two hundred."""
    study = simulate(clients=200, examples=5, seed=4)
    engine = Engine(MODEL)
    engine.learn_many(study.client, TIMES[study.when], study.y)
    release = engine.disclose()
    fig, axes = plt.subplots(1, 3, figsize=(10, 3.2), sharey=True, layout="constrained")
    for ax, client in zip(axes, (1, 2, 3)):
        own = study.client == client
        estimate = release.active_estimate(engine.coefficients(client))
        mean, std = estimate.predict(TIMES, return_std=True)
        t = TIMES[:, 0]
        ax.fill_between(t, mean - 1.96 * std, mean + 1.96 * std, color=CLIENT, alpha=0.2, lw=0, label="95 % band")
        ax.plot(t, release.average(TIMES), color=AVERAGE, ls="--", label="average of all")
        ax.plot(t, mean, color=CLIENT, label="this client")
        ax.plot(t, study.curves[client], color=TRUTH, lw=1, ls=":", label="truth")
        ax.plot(t[study.when[own]], study.y[own], "o", color="black", ms=5, label="its five samples")
        ax.set(title=f"client {client}", xlabel="time")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("response")
    axes[2].legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    fig.savefig(HERE / "curves.png", dpi=110)


if __name__ == "__main__":
    curves()
