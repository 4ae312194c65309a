"""Motet: many clients learn together, and keep their data to themselves.

Each client is one learning task with a few examples; its function is the average of all clients plus its own shift.

    MixedEffectRegressor   fit and predict on tables, as in scikit-learn
    fit_table   the same of a file or folder that does not fit into memory
    propose     a study that is right for a table, and what it is worth to the clients in it
    Model       what is learned: two kernels, their shares α and 1−α, the noise λ, a bias, a basis
    Catalogue   a public list of named inputs, if the model has one
    Engine      learns examples of many tasks in any order, forgets exactly, and discloses their sum
    Disclosed   this sum, a release: any client computes its Estimate from it and from its own examples
    Moments     long tasks of linear models, by sums of products; ``motet.sql`` has a database sum them
    Client      the same over HTTP: sends examples, or only downloads a release

Bases are ``Landmarks``, ``Eigen``, ``Nystrom`` and ``Features``; kernels are in ``motet.kernels`` (scikit-learn's and
our own), exceptions in ``motet.errors``, private releases in ``motet.privacy``, pictures in ``motet.plots``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from motet.client.client import Client
    from motet.engine.engine import Engine
    from motet.errors import MotetError
    from motet.model.basis import Eigen, Features, Landmarks, Nystrom
    from motet.model.model import Model
    from motet.planning.choice import Chosen, propose
    from motet.regression.comparison import compare
    from motet.regression.regressor import MixedEffectRegressor
    from motet.regression.tune import tune
    from motet.release.coefficients import Coefficients
    from motet.release.disclosed import Disclosed, Estimate
    from motet.scale.fit import TableFit, fit_table
    from motet.scale.moments import Moments
    from motet.tables.catalogue import Catalogue

__version__ = "0.1.0"

__all__ = [
    "Catalogue",
    "Chosen",
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
    "Moments",
    "MotetError",
    "Nystrom",
    "TableFit",
    "compare",
    "fit_table",
    "propose",
    "tune",
]

_HOME = {
    "Catalogue": "tables.catalogue",
    "Chosen": "planning.choice",
    "Client": "client.client",
    "Coefficients": "release.coefficients",
    "Disclosed": "release.disclosed",
    "Eigen": "model.basis",
    "Engine": "engine.engine",
    "Estimate": "release.disclosed",
    "Features": "model.basis",
    "Landmarks": "model.basis",
    "MixedEffectRegressor": "regression.regressor",
    "Model": "model.model",
    "Moments": "scale.moments",
    "MotetError": "errors",
    "Nystrom": "model.basis",
    "TableFit": "scale.fit",
    "compare": "regression.comparison",
    "fit_table": "scale.fit",
    "propose": "planning.choice",
    "tune": "regression.tune",
}


_MODULES = {name: name for name in ("errors", "kernels", "model", "music", "plots", "privacy", "study")}
_MODULES["sql"] = "scale.sql"


def __getattr__(name: str) -> Any:
    """Import a public name or module when it is first used, so that ``import motet`` stays light."""
    if name in _MODULES:
        return import_module(f"motet.{_MODULES[name]}")
    if name not in _HOME:
        raise AttributeError(f"module 'motet' has no attribute {name!r}")
    return getattr(import_module(f"motet.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    """The public names and modules, loaded or not, for completion."""
    return [*__all__, *_MODULES, "__doc__", "__version__"]
