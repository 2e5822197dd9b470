"""An application of items with versions, where a sink notices every lost, doubled or reordered entry.

Each change raises the version of an item by one. A log entry says `item:version`; a snapshot says it for all items.
A replay fails unless the next version of an item is its last one plus one.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from sqlalchemy import Column, Engine, Integer, MetaData, Table, insert, select, update
from sqlalchemy.orm import Session

from lr_client import RoutingQueueSenderClient

metadata = MetaData()
items = Table(
    "app_items",
    metadata,
    Column("item", Integer, primary_key=True),
    Column("version", Integer, nullable=False),
)


def create(engine: Engine, count: int) -> None:
    """Create *count* items of version 0."""
    metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(insert(items), [{"item": item, "version": 0} for item in range(count)])


def change(session: Session, sender: RoutingQueueSenderClient, item: int, to: Sequence[str]) -> int:
    """Change one item and transmit the change to *to*, in the caller's transaction; return the new version."""
    raised = update(items).where(items.c.item == item).values(version=items.c.version + 1).returning(items.c.version)
    version = session.execute(raised).scalar_one()
    sender.transmit_log_entry_message(session, entry(item, version), to)
    return version


def entry(item: int, version: int) -> bytes:
    return f"{item}:{version}".encode()


def read(payload: bytes) -> tuple[int, int]:
    item, _, version = payload.decode().partition(":")
    return int(item), int(version)


class Items:
    """A snapshot provider that sends all items as of the pinned cut."""

    def provide_full_state_data(self, context: Any) -> None:
        with context.snapshot.connect() as connection:
            for item, version in connection.execute(select(items).order_by(items.c.item)):
                self.before(item)
                context.transmit(entry(item, version))
        context.mark_completed()

    def before(self, item: int) -> None:
        """Do nothing; a test overrides this to wait before an item."""

    def cancel(self, context: Any) -> None:
        """Do nothing: the next `transmit` raises."""


def versions(engine: Engine) -> dict[int, int]:
    """Return the version of each item at the source."""
    with engine.connect() as connection:
        return {row.item: row.version for row in connection.execute(select(items))}


def replay(heard: Iterable[tuple[str, bytes]]) -> dict[int, int]:
    """Apply events ("start" | "snapshot" | "complete" | "log", payload) in order; return the version of each item.

    Fails at the first event that is missing, doubled or out of order.
    """
    state: dict[int, int] = {}
    phase = "complete"
    for number, (kind, payload) in enumerate(heard):
        where = f"thing {number}, {kind} {payload!r}"
        match kind:
            case "start":
                state, phase = {}, "start"
            case "snapshot":
                item, version = read(payload)
                assert phase == "start", f"{where}: outside a snapshot"
                assert item not in state, f"{where}: twice in one snapshot"
                state[item] = version
            case "complete":
                assert phase == "start", f"{where}: completed twice"
                phase = "complete"
            case "log":
                item, version = read(payload)
                assert phase == "complete", f"{where}: the log overtook the snapshot"
                assert version == state.get(item, 0) + 1, f"{where}: the sink has version {state.get(item, 0)}"
                state[item] = version
    return state


def caught_up(heard: Iterable[tuple[str, bytes]], source: Engine) -> bool:
    """Return whether a replay of the events gives the source's items; an event out of order gives False."""
    with suppress(AssertionError):
        return replay(list(heard)) == versions(source)
    return False
