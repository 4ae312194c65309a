"""The phases of what takes long, as a study tells them to whoever shows them: a name, and steps until its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Advance: TypeAlias = Callable[[], object]
Begin: TypeAlias = Callable[[str, str, int], Advance]  # a phase by name, what is counted, and at most how many of it


def unseen(name: str, unit: str, most: int) -> Advance:  # noqa: ARG001
    """Nobody looks."""
    return lambda: None
