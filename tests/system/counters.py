"""An application whose every change matters: items with versions that grow by one, and what a sink must make of them.

Log entries say `item:version`; a snapshot says it for all items. A sink that has lost, doubled or reordered anything
cannot replay what it was given: the next version of an item is always the one that it has plus one.
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
    """Make *count* items of version 0."""
    metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(insert(items), [{"item": item, "version": 0} for item in range(count)])


def change(session: Session, sender: RoutingQueueSenderClient, item: int, to: Sequence[str]) -> int:
    """Change one item and tell *to*, in the caller's transaction; return its new version."""
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
    """Provides all items at the pinned cut."""

    def provide_full_state_data(self, context: Any) -> None:
        with context.snapshot.connect() as connection:
            for item, version in connection.execute(select(items).order_by(items.c.item)):
                self.before(item)
                context.transmit(entry(item, version))
        context.mark_completed()

    def before(self, item: int) -> None:
        """Called before each item; a test may wait here."""

    def cancel(self, context: Any) -> None:
        """The next `transmit` raises."""


def versions(engine: Engine) -> dict[int, int]:
    """Return what the source has."""
    with engine.connect() as connection:
        return {row.item: row.version for row in connection.execute(select(items))}


def replay(heard: Iterable[tuple[str, bytes]]) -> dict[int, int]:
    """Return what a sink has that was given this: ("start" | "snapshot" | "complete" | "log", payload).

    Fails at the first thing that is missing, doubled or out of order.
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
    """Tell whether a sink that was given this has what the source has; anything wrong in it counts as no."""
    with suppress(AssertionError):
        return replay(list(heard)) == versions(source)
    return False
