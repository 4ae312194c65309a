"""Databases of every schema that ever landed, as SQL text.

``schemas/N`` has a study file, its database and its answers.

Number 1 is the database of ``before/exact``. When ``VERSION`` in ``motet.store.schema`` is about to be raised,
write the current one first:

    python -m tests.compatibility.schemas

The answers are what each client is told that it has (``motet export``), and the digest of the last release.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

from motet.store.clients import forget
from motet.store.examples import Example, remove, replace
from motet.store.export import export_client
from motet.store.schema import VERSION
from motet.store.store import read_only
from motet.study.study import Study
from tests.store.local_study import EXACT, LocalStudy, local_study

SCHEMAS = Path(__file__).parent / "schemas"


def dump(database: Path) -> str:
    """All statements that make the database again; line ends and trailing spaces as an editor leaves them."""
    with closing(sqlite3.connect(database)) as connection:
        lines = "\n".join(connection.iterdump()).splitlines()
    return "\n".join(line.rstrip() for line in lines) + "\n"


def build(version: int, folder: Path) -> Path:
    """A study with a database of this schema, as files; returns the study file."""
    study = folder / "study.toml"
    study.write_text((SCHEMAS / str(version) / "study.toml").read_text(encoding="utf-8"), encoding="utf-8")
    with closing(sqlite3.connect(folder / "study.db")) as connection:
        connection.executescript((SCHEMAS / str(version) / "database.sql").read_text(encoding="utf-8"))
    return study


def answers(study: Study) -> dict[str, Any]:
    """What the database says, whatever its schema."""
    with read_only(study) as connection:
        rows = connection.exec_driver_sql("SELECT id, name FROM clients ORDER BY name").fetchall()
        data = connection.exec_driver_sql("SELECT data FROM releases ORDER BY version DESC").scalar()
        exports = {name: export_client(connection, study, id) for id, name in rows}
    kept = {name: {key: export[key] for key in ("id", "examples", "removed")} for name, export in exports.items()}
    return {"clients": kept, "release": hashlib.sha256(data or b"").hexdigest()}


def live(study: LocalStudy) -> None:
    """Releases, and everything that a client can do between them."""
    study.release()
    with study.store.snapshot() as connection:
        ids: dict[str, str] = dict(map(tuple, connection.exec_driver_sql("SELECT name, id FROM clients")))
    study.do(replace, ids["ann"], Example("0", bytes(8), 2.5, 0.5))
    study.do(remove, ids["bob"], "1")
    study.do(forget, ids["cleo"])
    study.release()
    study.add(ids["bob"], (0.25, -1.5), first=7)


def main() -> None:
    place = SCHEMAS / str(VERSION)
    place.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as folder, local_study(Path(folder), EXACT) as study:
        live(study)
        written = answers(study.study)
        (place / "study.toml").write_text(EXACT, encoding="utf-8")
        (place / "database.sql").write_text(dump(Path(folder, "study.db")), encoding="utf-8")
    (place / "answers.json").write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
