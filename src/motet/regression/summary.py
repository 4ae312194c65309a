"""What a fitted regressor found, as tables: how well it fits, variance components, length scales, fixed effects."""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import Any

import numpy as np

from motet.arrays import Array
from motet.kernels.algebra import innermost
from motet.kernels.classes import Scaled, affine
from motet.kernels.finite_rank import features
from motet.kernels.gram import gram, linear_form
from motet.kernels.registry import entry_of
from motet.model.tasks import long_kernel
from motet.regression.description import Description, Part
from motet.regression.effects import fixed_effects
from motet.regression.results import Z95, Results
from motet.regression.scales import LOG
from motet.regression.tables import Table
from motet.text import count
from motet.threads import blas_limit
from motet.tuning.components import Component


class Summary:
    """The tables of a fitted regressor, each with ``to_frame()``.

    ``header``; ``variances`` (of each component in the outputs' units, with its share of an observation's variance at
    the inputs learned, its gain in log evidence over leaving it out, and shrinkage); ``correlations``; ``lengths``;
    ``fixed``; ``structure``, the steps by which the parts were chosen, if they were; and ``notes``, sentences.

    Shrinkage is 1 − (mean square of the tasks' estimated effects) / variance: near 0 % if every task tells its own
    effect, 100 % if all estimates are the average's; of a smooth component, over its values at the tasks' own inputs.
    Numbers that were given and not chosen have no standard error.
    """

    def __init__(self, results: Results) -> None:
        covariance = None if results.tuning is None else results.tuning.joint_covariance
        description = Description.of(results.components, results.names)
        of_parts, of_noise, of_pairs, of_shapes = description.errors(covariance)
        self.header, self.learned = _header(results), results.scale.titled("")
        self.variances = _variances(results, description, np.append(of_parts, of_noise))
        self.correlations = _correlations(description, of_pairs)
        self.lengths = _lengths(description, of_shapes, results.zero)
        self.fixed = fixed_effects(results)
        self.structure = _structure(results)
        self.notes = list(_notes(results))

    @property
    def tables(self) -> list[Table]:
        """All of them that have rows."""
        tables = (self.header, self.variances, self.correlations, self.lengths, self.fixed, self.structure)
        return [table for table in tables if len(table)]

    def to_frame(self) -> Any:
        """The variance components as a pandas data frame; every table has its own ``to_frame``."""
        return self.variances.to_frame()

    def __str__(self) -> str:
        value = dict(zip(self.header["quantity"], self.header["value"]))
        head = [
            f"Mixed-effect regression{self.learned} by {value['method']}",
            f"{count(value['observations'], 'observation')} of {count(value['tasks'], 'task')} "
            f"(smallest {value['smallest task']}, median {value['median task']:g}, largest {value['largest task']})",
            f"−2 log evidence {value['criterion']:.3f}   AIC {value['AIC']:.3f}   BIC {value['BIC']:.3f}   "
            f"{count(value['parameters'], 'parameter')}",
            _outcome(value),
        ]
        tables = [str(table) for table in self.tables[1:]]
        return "\n\n".join(
            ["\n".join(head), *tables, *(["\n".join(f"· {n}" for n in self.notes)] if self.notes else [])]
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in self.notes)
        return "".join(table._repr_html_() for table in self.tables) + (f"<ul>{notes}</ul>" if notes else "")


def _outcome(value: dict[str, Any]) -> str:
    if value["converged"] is None:
        return "settings as given"
    return f"{'converged' if value['converged'] else 'not converged'}, {value['seconds']:.1f} s"


def _header(results: Results) -> Table:
    sizes = np.unique(results.rows[0], return_counts=True)[1]
    tuning = results.tuning
    rows = {
        "observations": len(results.engine),
        "tasks": len(sizes),
        "smallest task": int(sizes.min()),
        "median task": float(np.median(sizes)),
        "largest task": int(sizes.max()),
        "method": results.method,
        "criterion": results.criterion,
        "parameters": results.parameters,
        "AIC": results.aic,
        "BIC": results.bic,
        "converged": None if tuning is None else tuning.converged,
        "seconds": None if tuning is None else tuning.seconds,
    }
    values = np.empty(len(rows), dtype=object)
    values[:] = list(rows.values())
    return Table({"quantity": list(rows), "value": values}, "Fit")


# --- tables ---


def _variances(results: Results, description: Description, errors: Array) -> Table:
    """A row for every part, for every component that is zero, and for the noise, whose error is the last."""
    zero = set(results.zero)
    absent = [c for c in results.zero if all(c is not other for other in results.components.terms)]
    sizes = {c: 0.0 if c in zero else c.size(results.system.X) for c in results.components.terms}
    total = 1.0 + sum(sizes.values())
    gains = {} if results.tuning is None else results.tuning.gains
    rows: list[tuple[Any, ...]] = []
    seen: set[Component] = set()
    for part, error in zip(description.parts, errors):
        c = part.component
        first, is_zero = c not in seen, c in zero
        seen.add(c)
        rows.append(
            (
                part.name,
                0.0 if is_zero else part.variance,
                sizes[c] / total if first else np.nan,
                np.nan if is_zero else error,
                (0.0 if is_zero and gains else gains.get(c, np.nan)) if first else np.nan,
                np.nan if is_zero or c.side == "average" else shrinkage(results, part),
            )
        )
    rows += [(c.described(results.names), 0.0, 0.0, np.nan, 0.0, np.nan) for c in absent]
    rows.append(("noise", 1.0, 1.0 / total, errors[-1], np.nan, np.nan))
    names, ratio, share, error, gain, shrunk = (list(column) for column in zip(*rows))
    variance = results.noise_variance * np.array(ratio)
    with np.errstate(over="ignore"):
        factor = np.exp(Z95 * np.array(error))
    return Table(
        {
            "component": names,
            "variance": variance,
            "std": np.sqrt(variance),
            "share": share,
            "std_error": variance * np.array(error),
            "low": variance / factor,
            "high": variance * factor,
            "gain": gain,
            "shrinkage": shrunk,
        },
        "Variance components (standard error and 95 % interval of the variance; gain in log evidence)",
    )


@blas_limit
def shrinkage(results: Results, part: Part) -> float:
    """1 − mean square of the tasks' estimates / variance, of effects, or of a function at the tasks' own inputs."""
    system, component = results.system, part.component
    ratio = results.engine.model.noise.variance(component.variance)  # of the kernel, in units of σ²
    C = linear_form(component.kernel, system.X.shape[1]) if part.effects else None
    squares = prior = 0.0
    for batch, a in system.coefficients():
        Z = system.X[batch.h]
        if C is None and batch.is_low_rank:
            U = np.sqrt(ratio) * features(long_kernel(component.kernel, Z), Z)
            estimate = (U @ (U.swapaxes(-1, -2) @ a[:, :, None]))[:, :, 0]
            prior += float(np.vdot(U, U))
        elif C is None:
            K = ratio * gram(component.kernel, Z)
            estimate = (K @ a[:, :, None])[:, :, 0]
            prior += float(np.einsum("jii->", K))
        else:
            effects = list(part.effects)
            k = ratio * C[effects] @ affine(Z).swapaxes(-1, -2)
            scale = np.sqrt(ratio * np.diag(C)[effects])
            estimate = (k @ a[:, :, None])[:, :, 0] / np.where(scale > 0, scale, 1.0)
            prior += estimate.size
        squares += float(np.vdot(estimate, estimate))
    prior *= results.sigma2
    return 1.0 - squares / prior if prior > 0 else np.nan


def _correlations(description: Description, errors: Array) -> Table:
    z = np.array([pair.coordinate for pair in description.pairs])
    return Table(
        {
            "component": [pair.component.described(description.names) for pair in description.pairs],
            "between": [pair.first for pair in description.pairs],
            "and": [pair.second for pair in description.pairs],
            "correlation": np.array([pair.correlation for pair in description.pairs]),
            "low": np.tanh(z - Z95 * errors),
            "high": np.tanh(z + Z95 * errors),
        },
        "Correlations",
    )


def _lengths(description: Description, errors: Array, zero: tuple[Component, ...]) -> Table:
    rows = [(shape, error) for shape, error in zip(description.shapes, errors) if shape.component not in zero]
    shapes, values = [shape for shape, _ in rows], np.array([shape.value for shape, _ in rows])
    with np.errstate(over="ignore"):
        factor = np.exp(Z95 * np.array([error for _, error in rows]))
    return Table(
        {
            "component": [shape.component.described(description.names) for shape in shapes],
            "parameter": [shape.parameter for shape in shapes],
            "input": [shape.input for shape in shapes],
            "value": values,
            "low": values / factor,
            "high": values * factor,
        },
        "Length scales",
    )


def _structure(results: Results) -> Table:
    """Every step that was tried, with what it gains."""
    path = () if results.tuning is None else results.tuning.path
    columns: dict[str, Any] = {
        "step": [attempt.name for attempt in path],
        "gain": np.array([attempt.evidence for attempt in path]),
        "left_out": np.array([attempt.left_out for attempt in path]),
        "std_error": np.array([attempt.standard_error for attempt in path]),
        "taken": ["yes" if attempt.kept else "no" for attempt in path],
    }
    return Table(columns, "Structure (gain in log evidence, and in the log score of rows and tasks left out)")


def _notes(results: Results) -> Iterator[str]:
    if results.scale is LOG:
        yield (
            "the logarithm of the output is learned, of which all numbers here are: an effect b multiplies the output "
            "by exp(b); predictions are of the output itself"
        )
    if results.tuning is not None:
        yield from results.tuning.notes
        rows = results.tuning.table_rows or results.tuning.rows
        if rows != len(results.engine):
            yield f"settings were chosen on {count(rows, 'row')}; rows were added or forgotten since"
    if results.noise is not None:
        yield from results.noise.notes
    basis = results.system.columns.basis
    yield from results.encoding.notes(results.rows[1], [] if basis.bias == "none" else list(basis.slopes))
    for component in results.components.on("individual"):
        kernel, entry = component.kernel, entry_of(innermost(component.kernel))
        has_slopes = entry.linear_form is not None and entry.own_scale is None
        if has_slopes and type(kernel) is Scaled and any(kernel.center):
            where = ", ".join(f"{name} {center:.4g}" for name, center in zip(results.names, kernel.center))
            yield f"the slopes of the shifts are centred at {where}: the variance of their intercept is that there"
