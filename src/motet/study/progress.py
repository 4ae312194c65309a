"""A running study, for its operator: how many clients take part, and what to expect of the next release.

Made of what the server shows anyone, and of the operator's own figures: numbers of examples, and the share of clients
that the clip shortens. Nobody's examples are needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from motet.model.model import Model
from motet.privacy.forecast import Forecast
from motet.privacy.ledger import Ledger
from motet.release.disclosed import Disclosed
from motet.study.outlook import Outlook, Plan, public_inputs
from motet.study.study import public_points
from motet.text import count


@dataclass(frozen=True)
class Progress:
    """``taking_part`` are clients with examples; a forecast is of the next release, None if nobody takes part yet."""

    enrolled: int
    taking_part: int
    examples: int
    shortened: float | None
    forecast: Forecast | None = None
    without_noise: Forecast | None = None
    alone: Forecast | None = None

    @classmethod
    def of(cls, study: Mapping[str, Any], figures: Mapping[str, Any], release: Disclosed | None) -> Progress:
        """From ``/v1/study``, ``/v1/clients/figures`` and the current release."""
        counted = [(int(one["examples"]), int(one["clients"])) for one in figures["clients"]]
        counts = np.repeat(*np.array([pair for pair in counted if pair[0]], dtype=int).reshape(-1, 2).T)
        about = sum(clients for _, clients in counted), len(counts), int(counts.sum()), figures["shortened"]
        plan = _plan(study, figures, release)
        if plan is None or not len(counts):
            return cls(*about)
        outlook = Outlook(plan, counts.tolist())
        made = study["budget"]["made"] if plan.ledger is not None else 0
        number = None if plan.ledger is None else min(made + 1, plan.ledger.releases)
        clients = len(counts)
        return cls(*about, outlook.release(clients, number), outlook.without_noise(clients), outlook.alone)

    def facts(self) -> dict[str, str]:
        """In words, by their names."""
        rows = {"clients": f"{self.enrolled:,} enrolled; {self.taking_part:,} with {count(self.examples, 'example')}"}
        if self.shortened is not None:
            rows["shortened"] = f"{100 * self.shortened:.0f} % of the clients, by the clip; half is expected"
        if self.forecast is not None and self.without_noise is not None and self.alone is not None:
            rows["forecast"] = (
                f"clients predict with an error of {self.forecast.observation:#.3g} from the next release; "
                f"{self.without_noise.observation:#.3g} without noise, {self.alone.observation:#.3g} alone"
            )
            rows["coverage"] = (
                f"{100 * self.forecast.coverage:.0f} % of observations in 90 % bands, if the model is right"
            )
        return rows

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def _plan(study: Mapping[str, Any], figures: Mapping[str, Any], release: Disclosed | None) -> Plan | None:
    """None if a study without noise has no release yet: its inputs and its σ² are not known."""
    model, budget, bounds = Model.from_spec(study["model"]), study["budget"], study["bounds"]
    if budget is None:
        if release is None or not release.sigma2 or not len(release.inputs):
            return None
        return Plan(model=replace(model, sigma2=release.sigma2), ledger=None, inputs=release.inputs)
    settings = {key: budget[key] for key in ("epsilon", "delta", "per", "releases")}
    points, named = public_points(model, bounds), None if model.columns is None else model.columns.bounds
    assert points is not None  # no private study is without them
    return Plan(
        model=model,
        ledger=Ledger(**settings),
        inputs=points if named is None else public_inputs(model, named),
        points=points,
        examples=int(figures["expected_examples"]),
        center=float(figures["center"]),
    )
