"""What a study or a table calls the columns of a release: clients, items, inputs, output and units.

Nothing is computed from them. Whoever has the release's file alone can read tables with these columns, and say what a
number is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from motet.arrays import MAX_COLUMNS
from motet.errors import InvalidRelease
from motet.text import brief

MAX_TEXT_LETTERS = 200  # of a name
LINES = ("study", "client", "target", "item", "output", "unit")


@dataclass(frozen=True, kw_only=True)
class Names:
    """``client``, ``target`` and ``item`` are columns of tables, ``output`` and ``unit`` what people call the output.
    ``inputs`` are columns with their units, of a release whose inputs have no names of their own."""

    study: str = ""
    client: str = "client"
    target: str = "y"
    item: str = "name"
    output: str = ""
    unit: str = ""
    inputs: Mapping[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The output, in words."""
        return f"{self.output or self.target}{f' ({self.unit})' if self.unit else ''}"

    def to_spec(self) -> dict[str, Any]:
        return {key: dict(value) if key == "inputs" else value for key, value in asdict(self).items() if value}

    @classmethod
    def from_spec(cls, spec: Any) -> Names:
        """From a release's header."""
        if not isinstance(spec, dict):
            raise InvalidRelease(f"not a release: expected names as an object, got {brief(spec)}")
        known = {key: spec[key] for key in LINES if key in spec}
        inputs = spec.get("inputs", {})
        if not isinstance(inputs, dict) or len(inputs) > MAX_COLUMNS:
            raise InvalidRelease("not a release: expected the names of its inputs")
        for text in (*known.values(), *inputs, *inputs.values()):
            if not isinstance(text, str) or len(text) > MAX_TEXT_LETTERS or not text.isprintable():
                expected = f"a name of at most {MAX_TEXT_LETTERS} letters"
                raise InvalidRelease(f"not a release: expected {expected}, got {brief(text)}")
        return cls(**known, inputs=inputs)
