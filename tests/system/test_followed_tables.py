"""A table that knows nothing of lrq replicates whole: rows of before by a snapshot, and each later change."""

import json
import random
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.orm import Session

import lrq
from tests.system.constant_writing import written
from tests.system.world import World
from tests.waiting import eventually

pytestmark = [pytest.mark.long, pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)]

CREATE = "CREATE TABLE orders (id INTEGER PRIMARY KEY, version INTEGER NOT NULL)"
FOLLOW = "SELECT lrq_follow('public.orders', client => 'policy', destinations => ARRAY['tokyo'])"
#: A change that comes twice or too early changes no row.
CHANGES = {
    "insert": "INSERT INTO orders VALUES (:id, :version)",
    "update": "UPDATE orders SET version = :version WHERE id = :id AND version = :version - 1",
    "delete": "DELETE FROM orders WHERE id = :id AND version = :version",
}


def write(chance: random.Random, connection: Connection, done: int) -> None:
    """Change random orders by plain SQL."""
    number, new = chance.randint(1, 1_000), 1_001 + done
    connection.execute(text("UPDATE orders SET version = version + 1 WHERE id = :id"), {"id": number})
    connection.execute(text(CHANGES["insert"]), {"id": new, "version": 1})
    if chance.random() < 0.5:
        connection.execute(text("DELETE FROM orders WHERE id = :id"), {"id": number})


@lrq.listener("policy", backoff=0.01)
def apply(session: Session, source_id: str, entries: Sequence[Any]) -> None:
    for entry in entries:
        found = json.loads(entry.opaque_payload)
        done = session.execute(text(CHANGES[found["op"]]), found.get("row") or found["old"])
        assert done.rowcount == 1, found  # type: ignore[attr-defined]


@apply.on_snapshot_sync_start
def clear(session: Session, source_id: str) -> None:
    session.execute(text("DELETE FROM orders"))


def test_a_followed_table_equals_its_copy_after_snapshots_under_constant_writing(
    world: World, chance: random.Random
) -> None:
    errors: list[Exception] = []
    completed: list[str] = []
    apply.on_error(lambda source_id, error: errors.append(error))
    apply.on_snapshot_sync_complete(lambda session, source_id: completed.append(source_id))
    for site in ("paris", "tokyo"):
        world.execute(site, CREATE)
    world.execute("paris", "INSERT INTO orders SELECT n, 1 FROM generate_series(1, 1000) AS n")

    def rows(site: str) -> list[tuple[int, int]]:
        return [tuple(row) for row in world.execute(site, "SELECT id, version FROM orders ORDER BY id")]

    with lrq.subscribe(world.site("tokyo"), apply, poll_interval=0.05):
        with written(world.site("paris"), partial(write, chance)) as writer:
            world.link("paris", "tokyo", initial_sync="snapshot")
            world.execute("paris", FOLLOW)
            world.provide("paris", lrq.FollowedTables())
            for number in range(3):
                world.request_snapshots("paris", "tokyo")
                eventually(lambda number=number: len(completed) > number, timeout=60)
                writes = writer.writes
                eventually(lambda writes=writes: writer.writes > writes + 20)
        eventually(lambda: rows("tokyo") == rows("paris"), timeout=60)
    assert errors == []
