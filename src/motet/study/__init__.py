"""The study file: its ``schema``, how the ``file`` is read and what it means (``study``), the ``limits`` of its
examples, what fixes its settings (``pins``), a ``template``.

``range`` has the bounds of inputs that name none, ``points`` quasi-random ones in between, ``scale`` that of an output.
The store, the server and the command line load studies; privacy, the engine and the model know nothing of files.
"""

from importlib import import_module
from typing import Any

from motet.study.schema import Limits, Release, Server
from motet.study.study import Study
from motet.study.template import Draft

__all__ = ["Draft", "Evaluation", "Limits", "Release", "Server", "Study", "evaluate"]


def __getattr__(name: str) -> Any:
    """``Evaluation`` and ``evaluate`` are those of ``motet.planning``, a room above, which are found here too."""
    if name not in ("Evaluation", "evaluate"):
        raise AttributeError(f"module 'motet.study' has no attribute {name!r}")
    return getattr(import_module("motet.planning.evaluation"), name)
