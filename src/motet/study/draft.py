"""A new study's file: what is asked of whoever begins one, the rest by default, written only where it loads."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from motet.errors import InvalidStudy
from motet.model.catalogue import Catalogue
from motet.study.study import Study
from motet.study.template import template

SOME = 500  # items whose distances are looked at


@dataclass(frozen=True, kw_only=True)
class Draft:
    """What a study is about and promises; ``catalogue`` or else inputs of ``dimension`` numbers."""

    name: str = "A new study"
    catalogue: Path | None = None
    dimension: int = 1
    bounds: tuple[float, float] = (0.0, 1.0)
    policy: Literal["private", "exact"] = "private"
    epsilon: float = 3.0
    releases: int = 10
    every: str = "1d"

    def write(self, path: Path, *, force: bool = False) -> Study:
        """The study that the file serves; where it would not load, the place is as it was."""
        check_new(path, force=force)
        before = path.read_bytes() if path.exists() else None
        text = self._text(path.absolute().parent)
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise InvalidStudy(f"cannot write {path}: {error.strerror}; choose another place") from None
        try:
            return Study.load(path)
        except BaseException:
            path.unlink() if before is None else path.write_bytes(before)
            raise

    def _text(self, folder: Path) -> str:
        said: dict[str, Any] = {"policy": self.policy, "epsilon": self.epsilon, "releases": self.releases}
        if self.catalogue is None:
            wide = _rough((self.bounds[1] - self.bounds[0]) / 3)
            inputs: dict[str, Any] = {"dimension": self.dimension, "bounds": self.bounds, "length_scale": wide}
        else:
            items = Catalogue.from_csv(self.catalogue)
            inputs = {"catalogue": os.path.relpath(self.catalogue.absolute(), folder), "length_scale": _distance(items)}
            inputs |= {"items": len(items), "features": len(items.features)}
        return template(self.name, **said, **inputs, every=self.every)


def check_new(path: Path, *, force: bool = False) -> None:
    """Refuse to overwrite."""
    if path.exists() and not (force and path.is_file()):
        raise InvalidStudy(f"{path} is there already: choose another name, or overwrite it with --force")


def _distance(items: Catalogue) -> float:
    """Half of how far apart items are as a rule: catalogues are public, so this costs no privacy."""
    some = items.vectors[:: -(-len(items) // SOME)]
    squares = ((some[:, None, :] - some[None, :, :]) ** 2).sum(axis=2)
    apart = squares[squares > 0]
    return _rough(float(np.sqrt(np.median(apart))) / 2) if len(apart) else 1.0


def _rough(number: float) -> float:
    """Two digits, and above 0 whatever came: the file may be refused for better reasons."""
    return float(f"{number:.2g}") if number > 0 else 1.0
