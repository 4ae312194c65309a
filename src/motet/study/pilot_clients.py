"""Which clients of a table are its pilot, whose rows the public settings come from; all others are protected.

A client's *place* is SHA-256 of a random salt and its name, read as a number from 0 to 1. The pilot is everybody whose
place is at most a threshold: the share asked for, or the place of the 30th client if that is higher, and never higher
than that of the 2,000th. A protected client lies above the threshold, so it is none of these, and without it the
threshold is the same: the pilot, and all that is computed from it alone, does not depend on whether any protected
client is in the table, nor on how many are. Nobody learns anything of them from a study file, whatever else is known.

A client counts by its own rows alone: if one of them has a name and an output.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass

from motet.errors import InvalidData
from motet.files import Table, cell_text, is_missing
from motet.study.schema import DIGEST_LETTERS, SALT_LETTERS, PilotSection

SHARE = 0.2
FEWEST_SERVED = 5  # clients beside it that a study can be evaluated on
FEWEST, MOST = 30, 2000  # clients of a pilot, if the table has as many


def digest_of(salt: str, name: str) -> str:
    """The first 64 bits, in hexadecimal digits."""
    return hashlib.sha256(f"{salt}{name}".encode()).hexdigest()[:DIGEST_LETTERS]


def is_listed(pilot: PilotSection | None, name: str) -> bool:
    """Whether a client is of the pilot of a study."""
    return pilot is not None and digest_of(pilot.salt, name) in pilot.digests


@dataclass(frozen=True, kw_only=True)
class PilotClients:
    """The pilot by name, out of so many ``others``; ``joins`` if its clients take part in the study too."""

    names: frozenset[str]
    others: int
    share: float
    salt: str
    threshold: float
    joins: bool = False

    @classmethod
    def draw(
        cls,
        table: Table,
        client: str,
        target: str,
        *,
        share: float = SHARE,
        joins: bool = False,
        salt: str | None = None,
    ) -> PilotClients:
        """Of a table whose columns are these. A ``salt`` is for tests: who knows it beforehand can choose names."""
        if not 0 < share <= 1:
            raise InvalidData(f"expected a share of the clients above 0 and at most 1 for the pilot, got {share:g}")
        salt = secrets.token_hex(SALT_LETTERS // 2) if salt is None else salt
        names = names_in(table, client, target)
        digests = {name: digest_of(salt, name) for name in names}
        threshold = _threshold(sorted(map(_place, digests.values())), share)
        chosen = frozenset(name for name, digest in digests.items() if _place(digest) <= threshold)
        others = len(names) - len(chosen)
        return cls(names=chosen, others=others, share=share, salt=salt, threshold=threshold, joins=joins)

    @property
    def expected(self) -> int:
        """How many will take part, by the size of the pilot and its share alone: the others are not counted here."""
        total = len(self.names) / self.threshold
        served = total if self.joins else total - len(self.names)
        return int(float(f"{served:.2g}")) or len(self.names)

    def section(self) -> PilotSection:
        """What the study file has of it."""
        digests = sorted(digest_of(self.salt, name) for name in self.names)
        return PilotSection(
            clients=len(digests), share=self.share, salt=self.salt, joins=self.joins, digests=tuple(digests)
        )

    def rows(self, table: Table, client: str) -> Table:
        """The rows of the pilot."""
        return _only(table, client, self.names, inside=True)

    def served(self, table: Table, client: str) -> Table:
        """The rows of those who take part; of the pilot too, if hardly anybody else is there."""
        return table if self.joins or self.others < FEWEST_SERVED else _only(table, client, self.names, inside=False)


def names_in(table: Table, client: str, target: str) -> list[str]:
    """The clients who have a row with an output, each once, in the order of the table."""
    cells = zip(table.cells(client), table.cells(target))
    return list(dict.fromkeys(cell_text(cell) for cell, y in cells if not is_missing(cell) and not is_missing(y)))


def _only(table: Table, client: str, names: frozenset[str], *, inside: bool) -> Table:
    cells = table.cells(client)
    return table.only(
        k for k, cell in enumerate(cells) if (not is_missing(cell) and cell_text(cell) in names) == inside
    )


def _place(digest: str) -> float:
    return int(digest, 16) / 16**DIGEST_LETTERS


def _threshold(places: list[float], share: float) -> float:
    """That leaves the pilot the same without any client above it."""
    fewest = places[FEWEST - 1] if len(places) >= FEWEST else 1.0
    most = places[MOST - 1] if len(places) >= MOST else 1.0
    return min(max(share, fewest), most)
