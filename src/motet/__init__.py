"""Motet: many clients learn together without handing their data to each other.

Each client is one learning task with a few examples; its function is the average of all plus a shift of its own.

    MixedEffectRegressor   fit and predict on tables, as in scikit-learn
    Model       what is learned: two kernels, their shares α and 1−α, the noise λ, a bias, a basis
    Catalogue   a public list of named inputs, for models that have one
    Engine      takes examples of many tasks as they come, forgets exactly, and discloses their sum
    Disclosed   that sum: from it and its own examples any client computes its own Estimate
    Client      the same over HTTP: sends examples, or only downloads, and estimates

Bases are ``Landmarks``, ``Eigen`` and ``Features``; kernels are scikit-learn's and those of ``motet.kernels``; what can
go wrong is in ``motet.errors``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from motet.client.client import Client
    from motet.errors import MotetError
    from motet.learning.engine import Engine
    from motet.learning.regressor import MixedEffectRegressor
    from motet.model.basis import Eigen, Features, Landmarks
    from motet.model.catalogue import Catalogue
    from motet.model.model import Model
    from motet.release.coefficients import Coefficients
    from motet.release.disclosed import Disclosed, Estimate

__version__ = "0.1.0"

__all__ = [
    "Catalogue",
    "Client",
    "Coefficients",
    "Disclosed",
    "Eigen",
    "Engine",
    "Estimate",
    "Features",
    "Landmarks",
    "MixedEffectRegressor",
    "Model",
    "MotetError",
]

_HOME = {
    "Catalogue": "model.catalogue",
    "Client": "client.client",
    "Coefficients": "release.coefficients",
    "Disclosed": "release.disclosed",
    "Eigen": "model.basis",
    "Engine": "learning.engine",
    "Estimate": "release.disclosed",
    "Features": "model.basis",
    "Landmarks": "model.basis",
    "MixedEffectRegressor": "learning.regressor",
    "Model": "model.model",
    "MotetError": "errors",
}


def __getattr__(name: str) -> Any:
    """Loaded when first asked for, so that ``import motet`` stays light."""
    if name not in _HOME:
        raise AttributeError(f"module 'motet' has no attribute {name!r}")
    return getattr(import_module(f"motet.{_HOME[name]}"), name)
