"""A snapshot made by queries and the log after it bring the table of the source: each change once."""

import json
import random
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

import lrq
from tests.system.world import World
from tests.waiting import eventually

pytestmark = pytest.mark.long

CREATE = "CREATE TABLE airports (id INTEGER PRIMARY KEY, version INTEGER NOT NULL)"
#: Each change names the version that it replaces, so a change that comes twice or too early changes no row.
CHANGES = {
    "insert": "INSERT INTO airports (id, version) VALUES (:id, :version)",
    "update": "UPDATE airports SET version = :version WHERE id = :id AND version = :version - 1",
    "delete": "DELETE FROM airports WHERE id = :id AND version = :version",
}


def change(session: Session, kind: str, number: int, version: int) -> None:
    """Make one change; fail unless exactly one row is changed."""
    done = session.execute(text(CHANGES[kind]), {"id": number, "version": version})
    assert done.rowcount == 1, f"{kind} {number} {version}"  # type: ignore[attr-defined]


class Editor(threading.Thread):
    """Changes the table of paris and transmits each change, in one transaction each."""

    def __init__(self, world: World, chance: random.Random, rows: int) -> None:
        super().__init__()
        self._world = world
        self._chance = chance
        self.rows = dict.fromkeys(range(1, rows + 1), 1)
        self.edits = 0
        self.stop = threading.Event()

    def run(self) -> None:
        while not self.stop.is_set():
            kind = self._chance.choice(("insert", "update", "update", "delete"))
            number = max(self.rows, default=0) + 1 if kind == "insert" else self._chance.choice(list(self.rows))
            version = {"insert": 1, "update": self.rows.get(number, 0) + 1}.get(kind, self.rows.get(number, 0))
            with Session(self._world.site("paris")) as session, session.begin():
                change(session, kind, number, version)
                payload = json.dumps({"kind": kind, "number": number, "version": version}).encode()
                self._world.client.transmit_log_entry_message(session, payload, ["tokyo"])
            if kind == "delete":
                del self.rows[number]
            else:
                self.rows[number] = version
            self.edits += 1


def applier() -> Any:
    """Return a listener that copies the table; it also notes its errors and the ends of snapshots."""

    @lrq.listener("policy", backoff=0.01)
    def apply(session: Session, source_id: str, entries: Sequence[Any]) -> None:
        for entry in entries:
            change(session, **json.loads(entry.opaque_payload))

    @apply.snapshot
    def add(session: Session, source_id: str, entries: Sequence[Any]) -> None:
        for entry in entries:
            row = json.loads(entry.opaque_payload)
            change(session, "insert", row["id"], row["version"])

    @apply.on_snapshot_sync_start
    def clear(session: Session, source_id: str) -> None:
        session.execute(text("DELETE FROM airports"))

    return apply


def test_snapshots_and_the_log_after_them_equal_the_table_under_constant_writing(
    world: World, chance: random.Random
) -> None:
    errors: list[Exception] = []
    completed: list[str] = []
    apply = applier()
    apply.on_error(lambda source_id, error: errors.append(error))
    apply.on_snapshot_sync_complete(lambda session, source_id: completed.append(source_id))
    world.execute("tokyo", CREATE)
    world.execute("paris", CREATE)
    with world.site("paris").begin() as connection:
        connection.execute(text(CHANGES["insert"]), [{"id": n, "version": 1} for n in range(1, 2001)])
    editor = Editor(world, chance, 2000)

    def copied() -> list[tuple[int, int]]:
        return [tuple(row) for row in world.execute("tokyo", "SELECT id, version FROM airports ORDER BY id")]

    def order_snapshots() -> None:
        for round_ in range(1, 4):
            eventually(lambda round_=round_: len(completed) >= round_, timeout=60)
            edits = editor.edits
            eventually(lambda edits=edits: editor.edits > edits + 20)
            with Session(world.site("paris")) as session, session.begin():
                world.client.request_snapshot_sync(session, "tokyo")

    with lrq.subscribe(world.site("tokyo"), apply, poll_interval=0.05):
        editor.start()
        try:
            world.link("paris", "tokyo", initial_sync="snapshot")
            world.provide("paris", lrq.SqlSnapshotProvider("SELECT id, version FROM airports", item_key="id"))
            order_snapshots()
        finally:
            editor.stop.set()
            editor.join()
        eventually(lambda: copied() == sorted(editor.rows.items()), timeout=60)
    assert errors == []
