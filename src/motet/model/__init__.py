"""What is learned: kernels as JSON and evaluated, catalogues, bases, the model, and one task's examples under it.

All rooms above use this one; it uses only the modules of the package root. Nothing here knows of other tasks.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from motet.model.basis import BasisSpec, Eigen, Features, Landmarks, Nystrom, register_basis
    from motet.model.catalogue import Catalogue
    from motet.model.model import Model

__all__ = ["BasisSpec", "Catalogue", "Eigen", "Features", "Landmarks", "Model", "Nystrom", "register_basis"]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: a client that reads a catalogue needs no kernels."""
    if name not in __all__:
        raise AttributeError(f"module 'motet.model' has no attribute {name!r}")
    home = {"Catalogue": "catalogue", "Model": "model"}.get(name, "basis")
    return getattr(import_module(f"motet.model.{home}"), name)
