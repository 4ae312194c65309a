"""What a regressor was given: its parameters, checked, and as ``Settings`` for the columns that it has seen."""

from __future__ import annotations

from typing import Any

from motet.errors import InvalidModel
from motet.regression.target import TARGETS
from motet.tables.encoding import Encoding
from motet.text import alternatives
from motet.tuning.defaults import Settings
from motet.tuning.robust import NOISES

GAUSSIAN = "gaussian"
MISSING = ("leave out", "indicator")


def settings_of(reg: Any) -> Settings:
    """What a regressor was given, for the columns that it has seen."""
    check_parameters(reg)
    names = ("common", "individual", "alpha", "lam", "bias", "basis", "sigma2", "optimizer", "method", "tuning_rows")
    given = {name: getattr(reg, name) for name in names}
    encoding, columns = getattr(reg, "encoding_", Encoding()), list(getattr(reg, "feature_names_in_", []))
    given["bias"] = encoding.bias(reg.bias)
    return Settings(**given, names=encoding.names or columns, columns=encoding.released)


def check_parameters(reg: Any) -> None:
    """Refuses words that no parameter has."""
    check_family(reg.family)
    if reg.optimizer not in ("evidence", None):
        raise InvalidModel(f'optimizer must be "evidence" or None, got {reg.optimizer!r:.40}')
    if reg.missing not in MISSING:
        raise InvalidModel(f"missing must be {alternatives(*MISSING)}, got {reg.missing!r:.40}")
    if reg.target not in TARGETS:
        raise InvalidModel(f"target must be {alternatives(*TARGETS)}, got {reg.target!r:.40}")
    if reg.noise not in NOISES:
        raise InvalidModel(f"noise must be {alternatives(*NOISES)}, got {reg.noise!r:.40}")


def check_family(family: Any) -> None:
    """Refuses other families than the one there is."""
    if family != GAUSSIAN:
        raise InvalidModel(
            f'family must be "{GAUSSIAN}", got {family!r:.40}: outcomes are real numbers with Gaussian noise, '
            'other families are not implemented; for positive outcomes, target="log" fits their logarithm'
        )
