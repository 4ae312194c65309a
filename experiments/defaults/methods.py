"""The methods that are compared, ours first: where each runs, how long it may, and which code its numbers depend on."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from benchmarks.peers.environments import OWN, PINS, ROOT

HERE = Path(__file__).parent
ROOMS = ("tables", "kernels", "model", "release", "engine", "tuning", "regression")
PEER_SECONDS, OUR_SECONDS = 60.0, 300.0


@dataclass(frozen=True)
class Method:
    """A class of a module of this experiment."""

    name: str
    module: str
    learner: str
    words: str
    environment: str = OWN
    seconds: float = PEER_SECONDS  # of the processor, for a table's fits and predictions
    script: str = "worker"  # that runs it

    @property
    def version(self) -> str:
        """A digest of the code that its numbers come from, without comments, docstrings and layout."""
        names = (self.module, "rows", "protocol", "inner", *dict.fromkeys(("worker", self.script)))
        files = [HERE / f"{name}.py" for name in names]
        return _digest((*files, *(_package() if self.module == "ours" else ())), PINS.get(self.environment, ()))


def _package() -> Iterable[Path]:
    source = ROOT / "src" / "motet"
    return sorted((*source.glob("*.py"), *(file for room in ROOMS for file in (source / room).rglob("*.py"))))


@cache
def _digest(files: tuple[Path, ...], pins: tuple[str, ...]) -> str:
    digest = hashlib.sha256(repr(pins).encode())
    for file in files:
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
                node.body = node.body[1:]
        digest.update(ast.dump(tree).encode())
    return digest.hexdigest()[:16]


OURS = Method("Motet", "ours", "Motet", "`MixedEffectRegressor()`, no setting", seconds=OUR_SECONDS, script="densities")
REFITTED = "fitted again with the rows that new tasks bring"
PEERS = (
    Method("LightGBM", "trees", "LightGBM", f"task as a category, as its mean or not at all; {REFITTED}", "boosting"),
    Method("CatBoost", "trees", "CatBoost", f"task as a category, as its mean or not at all; {REFITTED}", "boosting"),
    Method("GPBoost", "grouped_trees", "GPBoost", f"trees and random intercepts; {REFITTED}", "gpboost"),
    Method("mixed model", "mixed", "MixedModel", "linear or a spline in each column; intercepts, or slopes too; REML"),
    Method("ridge per task", "plain", "SeparateRidge", f"one penalty; {REFITTED}"),
    Method("pooled ridge", "plain", "PooledRidge", f"no tasks; {REFITTED}"),
    Method("means of tasks", "mixed", "TaskMeans", "no inputs; shrunken by REML"),
)
METHODS = {method.name: method for method in (OURS, *PEERS)}
