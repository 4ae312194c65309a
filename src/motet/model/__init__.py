"""What is learned: ``basis`` (features of the average), ``model`` (its settings), ``noise`` (how outputs scatter) and
``tasks`` (one task's examples).

Nothing here knows of other tasks. Catalogues, public lists of named inputs, live in ``motet.tables``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from motet.model.basis import BasisSpec, Eigen, Features, Landmarks, Nystrom, register_basis
    from motet.model.model import Model
    from motet.tables.catalogue import Catalogue

__all__ = ["BasisSpec", "Catalogue", "Eigen", "Features", "Landmarks", "Model", "Nystrom", "register_basis"]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: a client that reads a catalogue needs no kernels."""
    if name not in __all__:
        raise AttributeError(f"module 'motet.model' has no attribute {name!r}")
    home = {"Catalogue": "tables.catalogue", "Model": "model.model"}.get(name, "model.basis")
    return getattr(import_module(f"motet.{home}"), name)
