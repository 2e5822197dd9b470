"""A listener that fails at an entry: no entry overtakes it, and the listener's changes are rolled back."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from queues.receive.parked import parked, retry_parked
from tests.system.world import Messages, Recorder, World, in_log_sync
from tests.waiting import eventually

ENTRIES = [f"entry{number}".encode() for number in range(10)]
BAD = ENTRIES[2]


class Table(Recorder):
    """Inserts entries into a table of the application, and calls *refuse* for one of them while `stubborn`."""

    def __init__(self, refuse: Callable[[], bool]) -> None:
        super().__init__()
        self._refuse = refuse
        self.stubborn = True
        self.tries = 0

    def process_updates_in_log_entry_sync(self, session: Session, source_id: str, entries: Sequence[Any]) -> bool:
        for entry in entries:
            session.execute(text("INSERT INTO applied (payload) VALUES (:it)"), {"it": entry.opaque_payload})
            if entry.opaque_payload == BAD and self.stubborn:
                self.tries += 1
                return self._refuse()
        return super().process_updates_in_log_entry_sync(session, source_id, entries)


def crash() -> bool:
    raise RuntimeError("the application cannot do that")


@pytest.fixture(params=[lambda: False, crash], ids=["returns False", "raises"])
def table(request: pytest.FixtureRequest) -> Table:
    return Table(request.param)


def begin(world: World, table: Table, **options: Any) -> None:
    kind = "BYTEA" if world.site("tokyo").dialect.name == "postgresql" else "BLOB"
    world.execute("tokyo", f"CREATE TABLE applied (payload {kind})")
    world.provide("paris", Messages(lambda _: []))
    world.begun("paris", "tokyo")
    paris = world.link("paris", "tokyo")
    in_log_sync(paris, "tokyo")
    for entry in ENTRIES:
        world.transmit("paris", entry, to=["tokyo"])
    paris.drain(timeout=20)
    world.subscribe("tokyo", table, backoff=0.01, max_backoff=0.05, **options)


def applied(world: World) -> list[bytes]:
    return [bytes(row.payload) for row in world.execute("tokyo", "SELECT payload FROM applied")]


def test_a_listener_that_fails_at_the_third_of_ten_entries_is_called_again_until_it_applies_it(
    world: World, table: Table
) -> None:
    begin(world, table)
    eventually(lambda: table.tries >= 3)
    assert applied(world) == table.log("paris") == ENTRIES[:2]
    table.stubborn = False
    # A commit is visible in the database a moment before the recorder notes it.
    eventually(lambda: table.log("paris") == ENTRIES)
    assert applied(world) == ENTRIES


def test_a_parked_entry_lets_the_others_pass_and_can_be_retried(world: World, table: Table) -> None:
    begin(world, table, on_failure="park", max_tries=2)
    others = [entry for entry in ENTRIES if entry != BAD]
    eventually(lambda: table.log("paris") == others)
    assert applied(world) == others
    (aside,) = parked(world.site("tokyo"))
    assert (aside.client, aside.source, aside.entries, aside.tries) == ("policy", "paris", 1, 2)
    table.stubborn = False
    retry_parked(world.site("tokyo"), aside.id)
    eventually(lambda: applied(world) == [*others, BAD])
    assert parked(world.site("tokyo")) == []
