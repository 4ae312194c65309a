"""``python -m experiments.settings_membership [--tables N] [--victims N]``: who is in a table, by its study file?

A fair coin leaves one client out of a table, or not; ``motet init`` writes the study file; whoever attacks reads it,
and knows the rows of everybody, the victim's too, and the salt of the pilot. The best attack is to propose both studies
and to look which one it is. Without a pilot it succeeds; with one, a file says nothing of clients beside the pilot.
Writes SETTINGS_MEMBERSHIP.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.console import Console

from experiments.tables import Table as Results
from motet.planning.inputs import PilotRoles
from motet.planning.pilot import Pilot, PilotClients
from motet.planning.proposal import Proposal
from motet.planning.sections import StudyFile
from motet.study.template import Promise, Sections, text
from motet.tables.files import Table

RESULTS = Path(__file__).parent / "SETTINGS_MEMBERSHIP.md"
CLIENTS, ROWS = 80, 4
ROLES = PilotRoles(task="client", target="y", inputs=("x",))


def simulated(seed: int, clients: int = CLIENTS) -> Table:
    """Lines of many clients, each with a level and a slope of its own."""
    rng = np.random.default_rng(seed)
    rows: list[list[object]] = []
    for k in range(clients):
        level, slope = rng.normal((10.0, 1.0), (2.0, 0.5))
        for x in rng.uniform(0.0, 10.0, size=ROWS).round(2).tolist():
            rows.append([f"c{k}", x, round(float(level + slope * x + rng.normal()), 2)])
    return Table("table.csv", ["client", "x", "y"], rows, list(range(2, len(rows) + 2)))


def without(table: Table, client: str) -> Table:
    return table.only(k for k, row in enumerate(table.rows) if row[0] != client)


def study_file(table: Table, salt: str, share: float) -> str:
    """The file that a table proposes; with a share of 1 everybody is of the pilot, and joins.

    So that it takes a moment, the structure is the plain one, and the file is without the rank that a forecast finds:
    both are functions of the same rows. The tests compare whole files.
    """
    drawn = PilotClients.draw(table, "client", "y", share=share, joins=share == 1, salt=salt)
    proposal = Proposal.of(Pilot.read(table, ROLES, drawn), Promise(policy="exact"), plain=True)
    return text(settings_of(StudyFile(proposal).sections(), share), "")


def settings_of(sections: Sections, share: float) -> Sections:
    """All that the file says; of a pilot of everybody, who joins, without the list of its clients."""
    return sections if share < 1 else {key: value for key, value in sections.items() if key != "pilot"}


def victims_of(table: Table, salt: str, share: float, most: int) -> list[str]:
    """Some of those who are promised something: all clients beside the pilot; everybody if that joins."""
    drawn = PilotClients.draw(table, "client", "y", share=share, joins=share == 1, salt=salt)
    names = dict.fromkeys(row[0] for row in table.rows)
    return [name for name in names if share == 1 or name not in drawn.names][:most]


def trials(seed: int, share: float, most: int) -> list[tuple[bool, bool]]:
    """For each victim of one table, whether the two files differ, and whether the attack was right."""
    rng = np.random.default_rng([seed, 1])
    table, salt = simulated(seed), rng.bytes(16).hex()
    present = study_file(table, salt, share)
    outcomes = []
    for victim in victims_of(table, salt, share, most):
        is_in = bool(rng.integers(2))
        absent = study_file(without(table, victim), salt, share)
        published = present if is_in else absent
        guess = published == present if present != absent else bool(rng.integers(2))
        outcomes.append((present != absent, guess == is_in))
    return outcomes


def row(name: str, outcomes: Sequence[tuple[bool, bool]]) -> tuple[str, ...]:
    differ, right = map(np.array, zip(*outcomes))
    share = float(np.mean(right))
    error = (share * (1 - share) / len(outcomes)) ** 0.5
    return name, str(len(outcomes)), str(np.count_nonzero(differ)), f"{100 * share:.1f} ± {100 * error:.1f} %"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=10)
    parser.add_argument("--victims", type=int, default=40)
    options = parser.parse_args()
    rows = []
    for name, share in (("with a pilot (the default)", 0.2), ("without: --pilot 1 --pilot-joins", 1.0)):
        each = [trials(seed, share, options.victims) for seed in range(options.tables)]
        rows.append(row(name, [one for outcomes in each for one in outcomes]))
        Console().print(rows[-1])
    table = Results("Is the victim in the table?", ("settings", "trials", "files differ", "attack is right"), rows)
    about = (
        f"Tables of {CLIENTS} clients with {ROWS} rows each. In every trial a coin leaves one protected client out, or "
        "not; the attack knows all rows, the victim's too, the salt and the whole study file, and says whether the "
        "victim is in. If the file is the same with and without the victim, it tosses a coin, which is right in 50 %."
    )
    lines = [
        "# Membership by the settings",
        "",
        "Written by `python -m experiments.settings_membership`.",
        "",
        about,
        "",
    ]
    marked = ["<!-- --8<-- [start:table] -->", "", *table.markdown(), "<!-- --8<-- [end:table] -->", ""]
    RESULTS.write_text("\n".join([*lines, *marked]), encoding="utf-8")  # the docs show what is between these marks


if __name__ == "__main__":
    main()
