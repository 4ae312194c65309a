"""A budget of each client's own, over kills, restarts and restorations: nobody is in more releases than promised."""

from __future__ import annotations

from pathlib import Path

import pytest

from motet.store.backup import back_up, restore
from motet.study.study import Study
from tests.scenarios.harness import END, Parts, parts, poll, with_free_port, write_study
from tests.scenarios.studies import private
from tests.store.local_study import states

BUDGET = 3
BODY = private(BUDGET) + 'per = "client"\n'


def taken(place: Parts) -> dict[str, int]:
    """In how many releases each client took part."""
    return {client: int(count) for client, count in place.rows("select client, releases from taken")}


def version(place: Parts) -> int:
    return int(place.rows("select coalesce(max(version), 0) from releases")[0][0])


def wait_for(place: Parts, newest: int) -> None:
    poll(lambda: version(place) >= newest, END, f"release {newest}")


@pytest.mark.slow
def test_nobody_takes_part_more_often_than_was_promised(tmp_path: Path, database: str) -> None:
    """Each release counts once for ann, who is there from the first on, until she retires; whatever was killed."""
    study = write_study(tmp_path, BODY, database=database)
    with parts(study) as running, running.operator() as operator:
        ann, bob = operator.enroll(["ann", "bob"])
        running.kill_for_good("publisher")
        with running.client(ann.token) as me:
            me.send_many([[0.1], [0.9]], [1.0, 2.0])
        begun = version(running)  # one that came before she sent has nothing of hers
        for point in ("caught up", "ledger", "publication"):
            running.fall("publisher", point, 1)
            assert taken(running).get(ann.id, 0) == version(running) - begun
        running.start("publisher")
        wait_for(running, begun + 2)
        running.kill("server")
        running.kill("publisher")
        back_up(Study.load(study), tmp_path / "backup.zip")
        with running.client(bob.token) as other:
            other.send([0.5], -1.0)
        wait_for(running, begun + BUDGET + 1)
        with running.client(ann.token) as me:
            assert me.me()["releases_taken_part_in"] == BUDGET
            assert taken(running)[ann.id] == BUDGET
            me.forget_me()
        (again,) = operator.enroll(["ann"])
        with running.client(again.token) as me:
            me.send([0.1], 1.0)
        wait_for(running, version(running) + 2)  # the first of them may have been begun before
        running.kill_for_good("publisher")
        assert 0 < taken(running)[again.id] <= BUDGET  # another client, as the docs say
        assert max(taken(running).values()) == BUDGET
        last = version(running)
        assert "failed" not in states(Study.load(study)).values()
    restored = restore(tmp_path / "backup.zip", tmp_path / "restored").study
    with parts(with_free_port(restored.path)) as running:
        assert taken(running)[ann.id] == BUDGET  # what the clock may have brought since is charged
        poll(lambda: version(running) > last, END, "a release of the restored study, with a version of its own")
        assert max(taken(running).values()) == BUDGET
        assert "failed" not in states(restored).values()
