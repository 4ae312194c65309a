"""``python -m experiments.own_tables [--seeds N]``: from a table to served private predictions, in three commands.

``motet init --from``, ``motet serve --data`` and ``motet predict`` on tables such as people have: glucose of patients,
ratings of films, sales of shops. Compares the error at later rows of those who take part with that of the same model in
memory without noise; with that of a study whose settings come from the whole table, and in which everybody takes part;
and with what people do without Motet, who have all rows without noise too. Writes OWN_TABLES.md.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from sklearn.compose import make_column_transformer
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from tests.own_tables import TABLES, OwnTable

from experiments.tables import Table
from motet.engine.engine import Engine
from motet.study.study import Study

RESULTS = Path(__file__).parent / "OWN_TABLES.md"
GOAL, COVERAGE = 1.1, (0.85, 0.95)
BAND = 1.6448536269514722  # half of a 90 % band, in standard deviations
DAMPING = 5.0  # of the means of users and items, in ratings
FACTORS = 4
SERVED = re.compile(r"is served at (http://\S+)")
WAIT_SECONDS = 300


@dataclass(frozen=True)
class Outcome:
    """Errors at later rows of what is served, of the same with settings of the whole table, of its model in memory, and
    of baselines; and the bands' coverage."""

    served: float
    coverage: float
    whole: float
    in_memory: float
    baselines: dict[str, float]

    @property
    def ratio(self) -> float:
        return self.served / self.in_memory

    @property
    def best(self) -> str:
        return min(self.baselines, key=lambda name: self.baselines[name])


def outcome(table: OwnTable, *, epsilon: float = 3.0) -> Outcome:
    """Three commands in a new folder, and what came of them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table.write(folder)
        predicted, study = three_commands(table, folder, epsilon)
        table = replace(table, later=predicted[table.later.columns])
        everybody, _ = three_commands(table, folder, epsilon, "--pilot", "1", "--pilot-joins")
        error, whole = (rmse(one["mean"], one[table.target]) for one in (predicted, everybody))
        covered = np.abs(predicted["mean"] - predicted[table.target]) <= BAND * predicted["std"]
        return Outcome(error, float(np.mean(covered)), whole, in_memory(table, study), baselines(table))


def three_commands(table: OwnTable, folder: Path, epsilon: float, *options: str) -> tuple[pd.DataFrame, Study]:
    """Predictions at the later rows of those who take part, and the study."""
    roles = ["--client", table.client, "--target", table.target]
    inputs = ["--inputs", ",".join(table.inputs)]
    if table.items is not None:
        features = len(table.items.columns) > 1
        inputs = ["--name", table.inputs[0], *(["--catalogue", "items.csv"] if features else [])]
    study, data = f"study{len(options)}.toml", f"{table.name}.csv"
    promise = ["--epsilon", str(epsilon), "--releases", "1"]
    motet(folder, "init", study, "--from", data, *roles, *inputs, *promise, *options)
    tokens, predicted = f"study{len(options)}-tokens.csv", f"predicted{len(options)}.csv"
    with served(folder, study, data) as address:
        takes_part = table.later[table.client].isin(pd.read_csv(folder / tokens)["client"])
        table.later[takes_part].to_csv(folder / "later.csv", index=False)
        motet(folder, "predict", "later.csv", "--tokens", tokens, "--observation", "--out", predicted,
              "--url", address)  # fmt: skip
    return pd.read_csv(folder / predicted), Study.load(folder / study)


def motet(folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "motet", *arguments]
    return subprocess.run(
        command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True, timeout=WAIT_SECONDS
    ).stdout


@contextlib.contextmanager
def served(folder: Path, study: str, data: str) -> Iterator[str]:
    """The address of a study that is served in the block."""
    command = [sys.executable, "-m", "motet", "serve", study, "--data", data, "--port", "0", "--log-format", "plain"]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MOTET_")}
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stderr is not None
            addresses = (SERVED.search(line) for line in server.stderr)
            yield next(found[1] for found in addresses if found is not None)
        finally:
            server.send_signal(signal.SIGTERM)


def rmse(mean: pd.Series | np.ndarray, y: pd.Series) -> float:
    return float(np.sqrt(np.mean((np.asarray(mean) - y) ** 2)))


# --- the same model in memory ---


def in_memory(table: OwnTable, study: Study) -> float:
    """With the settings of the study, on the same rows, without noise and without a fixed basis."""
    rows, later = table.rows.dropna(subset=[table.client, table.target, *table.inputs]), table.later
    catalogue = study.model.catalogue
    read = (lambda frame: catalogue.look_up(frame[table.inputs[0]])) if catalogue else None
    X, at = (read(f) if read else study.model.rows(f[table.inputs]) for f in (rows, later))
    engine = Engine(replace(study.model, basis=None))
    engine.learn_many(list(rows[table.client]), X, rows[table.target].to_numpy(float))
    return rmse(engine.predict_many(list(later[table.client]), at), later[table.target])


# --- what people do without it ---


def baselines(table: OwnTable) -> dict[str, float]:
    rows, later = table.rows.dropna(subset=[table.client, table.target, *table.inputs]), table.later
    y, by_client = rows[table.target], rows.groupby(table.client)[table.target]
    mean = float(y.mean())
    means = {
        "mean of all": np.full(len(later), mean),
        "mean of the client": later[table.client].map(by_client.mean()).fillna(mean),
    }
    means |= _of_items(table, rows, later) if table.items is not None else _of_columns(table, rows, later)
    return {name: rmse(predicted, later[table.target]) for name, predicted in means.items()}


def _of_items(table: OwnTable, rows: pd.DataFrame, later: pd.DataFrame) -> dict[str, np.ndarray]:
    item, y = table.inputs[0], rows[table.target]
    mean = y.mean()
    film = _damped(y - mean, rows[item], 0.0)
    damped = _damped(y - mean, rows[item], DAMPING)
    user = _damped(y - mean - rows[item].map(damped), rows[table.client], DAMPING)
    both = mean + later[item].map(damped).fillna(0) + later[table.client].map(user).fillna(0)
    residual = y - mean - rows[item].map(damped) - rows[table.client].map(user)
    matrix = pd.DataFrame({"u": rows[table.client], "i": rows[item], "r": residual})
    matrix = matrix.pivot_table(index="u", columns="i", values="r").fillna(0)
    svd = TruncatedSVD(FACTORS, random_state=0)
    low_rank = pd.DataFrame(svd.fit_transform(matrix) @ svd.components_, matrix.index, matrix.columns)
    known = zip(later[table.client], later[item])
    more = [low_rank.at[u, i] if u in low_rank.index and i in low_rank.columns else 0.0 for u, i in known]
    return {
        "mean of the item": np.asarray(mean + later[item].map(film).fillna(0)),
        "damped user and item": np.asarray(both),
        "the same and an SVD": np.asarray(both) + np.array(more),
    }


def _damped(residual: pd.Series, by: pd.Series, damping: float) -> pd.Series:
    groups = residual.groupby(by)
    return groups.sum() / (groups.count() + damping)


def _of_columns(table: OwnTable, rows: pd.DataFrame, later: pd.DataFrame) -> dict[str, np.ndarray]:
    inputs, y = table.inputs, rows[table.target]
    words = [column for column in inputs if not pd.api.types.is_numeric_dtype(rows[column])]
    numbers = [column for column in inputs if column not in words]
    one_hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    with_client = make_column_transformer((one_hot, [table.client, *words]), (StandardScaler(), numbers))
    pooled = make_column_transformer((one_hot, words), (StandardScaler(), numbers))
    ridge = make_pipeline(with_client, Ridge(1.0)).fit(rows[[table.client, *inputs]], y)
    boosting = make_pipeline(with_client, HistGradientBoostingRegressor(random_state=0)).fit(
        rows[[table.client, *inputs]], y
    )
    kernel = ConstantKernel(1.0) * RBF(1.0) + WhiteKernel(1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        process = make_pipeline(pooled, GaussianProcessRegressor(kernel, normalize_y=True)).fit(rows[inputs], y)
    own = (y - process.predict(rows[inputs])).groupby(rows[table.client]).mean()
    return {
        "ridge, client as a column": ridge.predict(later[[table.client, *inputs]]),
        "boosting, client as a column": boosting.predict(later[[table.client, *inputs]]),
        "pooled process + client's mean": process.predict(later[inputs]) + later[table.client].map(own).fillna(0),
    }


# --- results ---


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    seeds = range(11, 11 + parser.parse_args().seeds)
    rows = []
    for name, make in TABLES.items():
        found = [outcome(make(seed)) for seed in seeds]
        rows.append(_row(name, found))
        Console().print(rows[-1])
    text = (
        f"Means of {len(seeds)} tables of each kind, ε = 3 in one release. A study is proposed, served and asked for "
        "predictions in three commands: settings come from a pilot of a fifth of the clients, at least 30, and the "
        "others take part and are scored. *Whole table* is the error of the same clients if settings come from all "
        "rows and everybody takes part (`--pilot 1 --pilot-joins`): the settings then keep no promise. The ratio is "
        "to the error of the same model in memory, without noise "
        f"(goal: at most {GOAL}); bands of 90 % should hold {COVERAGE[0]:.0%} to {COVERAGE[1]:.0%} of later rows. "
        "Baselines have the same rows, without noise."
    )
    columns = (
        "table",
        "clients",
        "served",
        "whole table",
        "its ratio",
        "in memory",
        "ratio",
        "90 % bands",
        "best baseline",
        "its error",
    )
    table = Table("From a table to served predictions", columns, rows)
    lines = ["# Tables of one's own", "", "Written by `python -m experiments.own_tables`.", "", text, ""]
    RESULTS.write_text("\n".join([*lines, *table.markdown()]), encoding="utf-8")


def _row(name: str, found: list[Outcome]) -> tuple[str, ...]:
    baselines = {key: float(np.mean([one.baselines[key] for one in found])) for key in found[0].baselines}
    best = min(baselines, key=lambda key: baselines[key])
    served, whole, in_memory = (
        float(np.mean([getattr(one, key) for one in found])) for key in ("served", "whole", "in_memory")
    )
    coverage = float(np.mean([one.coverage for one in found]))
    clients = {"glucose": "150 patients", "ratings": "2,000 users", "panel": "80 shops"}[name]
    figures = (
        f"{served:.3g}",
        f"{whole:.3g}",
        f"{served / whole:.3f}",
        f"{in_memory:.3g}",
        f"{served / in_memory:.3f}",
        f"{coverage:.0%}",
    )
    return name, clients, *figures, best, f"{baselines[best]:.3g}"


if __name__ == "__main__":
    main()
