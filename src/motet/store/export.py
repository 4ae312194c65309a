"""All that a study holds of one client, for whoever asks what is known of them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import func, select

from motet.errors import UnknownTask
from motet.store.clients import find_client
from motet.store.examples import inputs
from motet.store.releases import gaps
from motet.store.schema import PRESENT, examples, log, participations, releases
from motet.store.store import Connection
from motet.study.study import Study

EXACT = (
    "{Made} while examples of this client were here. Exact releases: whoever kept two of them may rebuild from the "
    "copies what the client had sent, also after it was removed here."
)
PRIVATE = (
    "{Made} while examples of this client were here. Copies stay in the world; they, and the noisy sums that are kept "
    "to improve later releases, tell of the client no more than (ε, δ) = ({epsilon:g}, {delta:g}) allows."
)
NONE = "No release was made while examples of this client were here."
FORGOTTEN = "This client was forgotten: only its random id is left in the log, so that its number is not given again."
LOST = "{Versions} may have been released before a backup was restored, and may hold this client too."
COPIES = "Backups that were made earlier keep what was removed later."


def holdings(connection: Connection, study: Study, who: str) -> dict[str, Any]:
    """What the tables have of a client, by its name or id, in plain words where words are needed; never its token."""
    client = find_client(connection, who)
    id = client["id"] if client is not None else who
    history = [dict(row) for row in connection.execute(_history(id)).mappings()]
    if client is None and not history:
        raise UnknownTask(f"no client has the name or id {who!r}: motet clients lists them")
    held, gone = _examples(connection, study, id)
    found: dict[str, Any] = {"study": study.name, "id": id}
    if client is not None:
        found |= {"name": client["name"], "revoked": client["revoked"]}
    found |= {"examples": held, "removed": gone, "log": history}
    if study.private and study.release.per == "client":
        chosen = select(participations.c.releases).where(participations.c.client == id)
        found["releases_taken_part_in"] = connection.execute(chosen).scalar() or 0
    return found | {"notes": _notes(connection, study, history, forgotten=client is None)}


def _history(id: str) -> Any:
    return select(log.c.sequence, log.c.kind, log.c.example).where(log.c.client == id).order_by(log.c.sequence)


def _examples(connection: Connection, study: Study, id: str) -> tuple[list[dict[str, Any]], list[str]]:
    """Those that are here, with inputs as they were sent, and the ids of those that were removed."""
    here = connection.execute(select(examples).where(examples.c.client == id, PRESENT).order_by(examples.c.id)).all()
    gone = select(examples.c.id).where(examples.c.client == id, ~PRESENT).order_by(examples.c.id)
    sent = inputs(study.model, [row.x for row in here])
    held = [
        {"id": row.id, "x": x, "y": row.y, "noise": row.noise, "sequence": row.sequence} for row, x in zip(here, sent)
    ]
    return held, list(connection.execute(gone).scalars())


def _notes(connection: Connection, study: Study, history: list[dict[str, Any]], *, forgotten: bool) -> list[str]:
    """What releases may still hold, and where else something may be."""
    notes = [FORGOTTEN] if forgotten else []
    made = select(func.min(releases.c.version), func.max(releases.c.version))
    begin, end = (history[0]["sequence"], history[-1]["sequence"]) if history else (0, 0)
    while_here = releases.c.sequence.between(begin, end - 1) if forgotten else releases.c.sequence >= begin
    first, last = connection.execute(made.where(while_here)).one() if history else (None, None)
    made_then = f"Release {first} was made" if first == last else f"Releases {first} to {last} were made"
    words = PRIVATE if study.private else EXACT
    notes.append(NONE if first is None else words.format(Made=made_then, **study.release.model_dump()))
    lost = [one.versions.capitalize() for one in gaps(connection) if one.versions]
    notes += [LOST.format(Versions=versions) for versions in lost]
    return [*notes, COPIES]
