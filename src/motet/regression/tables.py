"""Small tables of results: read as text, in a notebook, or as a data frame."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motet.errors import InvalidData
from motet.text import alternatives, suggestion

FORMATS: dict[str, Callable[[float], str]] = {  # of columns by name
    **dict.fromkeys(("share", "shrinkage"), "{:.1%}".format),
    **dict.fromkeys(("criterion", "AIC", "BIC", "loo"), "{:.3f}".format),
    **dict.fromkeys(("gain", "left_out"), lambda gain: f"{gain + 0.0:+.1f}"),
    "p": lambda p: f"{p:.4f}" if p >= 1e-4 else f"{p:.1e}",
    "df": "{:g}".format,
}
SIGNIFICANT_DIGITS, MIN_DIGITS = 6, 3  # of a column's largest number, and of every number
MAX_SHOWN_ROWS = 40


class Table:
    """Named columns of equal length. A number that is not known is NaN, and shown as nothing."""

    def __init__(self, columns: Mapping[str, Sequence[Any] | NDArray[Any]], title: str = "") -> None:
        self.title = title
        self._columns = {name: np.asarray(_values(values)) for name, values in columns.items()}

    @property
    def columns(self) -> list[str]:
        return list(self._columns)

    def __len__(self) -> int:
        return len(next(iter(self._columns.values()), ()))

    def __getitem__(self, column: str) -> NDArray[Any]:
        """A column, by name."""
        if column not in self._columns:
            hint = suggestion(str(column), self._columns)
            raise InvalidData(f"expected a column {alternatives(*self._columns)}, got {column!r:.60}{hint}")
        return self._columns[column]

    def to_frame(self) -> Any:
        """A pandas data frame."""
        try:
            import pandas as pd
        except ImportError:
            raise ImportError("to_frame needs pandas, which is not installed: pip install pandas") from None
        return pd.DataFrame(self._columns)

    def __str__(self) -> str:
        cells = self._cells()
        widths = {name: max(map(len, [name, *texts])) for name, texts in cells.items()}
        left = {*list(cells)[:1], *(name for name in cells if self._columns[name].dtype.kind not in "biuf")}
        rows = [list(cells), *zip(*cells.values())]
        lines = [
            "  ".join(
                f"{cell:<{widths[name]}}" if name in left else f"{cell:>{widths[name]}}"
                for name, cell in zip(cells, row)
            ).rstrip()
            for row in rows
        ]
        if len(self) > MAX_SHOWN_ROWS:
            lines.append(f"… {len(self) - MAX_SHOWN_ROWS} more rows")
        return "\n".join([self.title, *lines] if self.title else lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        cells = self._cells()
        head = "".join(f"<th>{html.escape(name)}</th>" for name in cells)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in zip(*cells.values())
        )
        title = f"<caption>{html.escape(self.title)}</caption>" if self.title else ""
        return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def _cells(self) -> dict[str, list[str]]:
        """As shown: without columns of which nothing is known."""
        return {
            name: _texts(name, values[:MAX_SHOWN_ROWS])
            for name, values in self._columns.items()
            if values.dtype.kind != "f" or not np.isnan(values).all() or not len(values)
        }


def _values(values: Any) -> Any:
    """Labels of mixed types stay as they are."""
    if isinstance(values, np.ndarray) or all(isinstance(v, (int, float, np.number)) for v in values):
        return values
    out = np.empty(len(values), dtype=object)
    out[:] = list(values)
    return out


def _texts(name: str, values: NDArray[Any]) -> list[str]:
    """The cells of a column: numbers with as many decimals as the largest needs."""
    if values.dtype.kind != "f":
        return [str(value) for value in values]
    if name in FORMATS:
        return ["" if np.isnan(v) else FORMATS[name](v) for v in values]
    largest = np.abs(values[np.isfinite(values)]).max(initial=0.0)
    decimals = int(np.clip(SIGNIFICANT_DIGITS - 1 - np.floor(np.log10(largest or 1.0)), 0, SIGNIFICANT_DIGITS - 2))
    return [_number(float(v), decimals) for v in values]


def _number(value: float, decimals: int) -> str:
    if np.isnan(value):
        return ""
    if value and np.isfinite(value) and (abs(value) < 10.0 ** (MIN_DIGITS - 1 - decimals) or abs(value) >= 1e9):
        return f"{value:.{MIN_DIGITS}g}"
    return f"{value:.{decimals}f}"
