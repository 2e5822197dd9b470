"""The applications of a fault run, and the check for lost, doubled or misplaced entries.

The source's application changes items of `tests.system.counters`. The sink's listener stores each payload in
`app_heard` and counts the changes of each item in `app_totals`, in one transaction. Counting is not idempotent, so a
wrong total shows a repeated entry, or one kept despite a rollback.
"""

import random
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Column, Engine, Integer, LargeBinary, MetaData, Table, Text, delete, insert, select, update
from sqlalchemy.orm import Session

from lr_client import RoutingQueueListener, RoutingQueueSenderClient
from queues.database.tables.base import Number
from tests.system import counters

CLIENT = "policy"
#: The status of an application that has stopped writing.
WRITTEN_ALL = "all is written"
#: The number of items, and the number of changed ones (the first ones).
ITEMS, CHANGED = 3_000, 40

source_metadata = MetaData()
#: The entries that the application committed, in its own table.
written = Table("app_written", source_metadata, Column("n", Number, primary_key=True), Column("payload", LargeBinary))

sink_metadata = MetaData()
heard = Table(
    "app_heard",
    sink_metadata,
    Column("n", Number, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("payload", LargeBinary, nullable=False),
)
totals = Table("app_totals", sink_metadata, Column("item", Integer, primary_key=True), Column("total", Integer))


def prepare(source: Engine, sink: Engine) -> None:
    """Create the applications' tables."""
    counters.create(source, ITEMS)
    source_metadata.create_all(source)
    sink_metadata.create_all(sink)


def write(engine: Engine, sender: RoutingQueueSenderClient, chance: random.Random, destination: str) -> None:
    """Change up to four items in one transaction; one in twenty is rolled back."""
    with Session(engine) as session:
        # Sorted: two writers with different orders would deadlock.
        for item in sorted(chance.sample(range(CHANGED), chance.randint(1, 4))):
            version = counters.change(session, sender, item, [destination])
            session.execute(insert(written), {"payload": counters.entry(item, version)})
        if chance.random() < 0.05:
            session.rollback()
        else:
            session.commit()


class Ledger(RoutingQueueListener):
    """Applies entries and stores them in `app_heard`, in the subscriber's transaction."""

    client_name = CLIENT

    def process_updates_in_snapshot_sync(self, session: Session, source_id: str, entries: Sequence[Any]) -> bool:
        rows = [counters.read(entry.opaque_payload) for entry in entries]
        session.execute(insert(totals), [{"item": item, "total": version} for item, version in rows])
        self._note(session, "snapshot", *(entry.opaque_payload for entry in entries))
        return True

    def process_updates_in_log_entry_sync(self, session: Session, source_id: str, entries: Sequence[Any]) -> bool:
        for entry in entries:
            item, _ = counters.read(entry.opaque_payload)
            session.execute(update(totals).where(totals.c.item == item).values(total=totals.c.total + 1))
        self._note(session, "log", *(entry.opaque_payload for entry in entries))
        return True

    def on_snapshot_sync_start(self, session: Session, source_id: str) -> None:
        session.execute(delete(totals))
        self._note(session, "start", b"")

    def on_snapshot_sync_complete(self, session: Session, source_id: str) -> None:
        self._note(session, "complete", b"")

    def _note(self, session: Session, kind: str, *payloads: bytes) -> None:
        session.execute(insert(heard), [{"kind": kind, "payload": payload} for payload in payloads])


def everything_arrived(source: Engine, sink: Engine) -> bool:
    """Return whether the sink's totals equal the source's versions."""
    with sink.connect() as connection:
        there = {row.item: row.total for row in connection.execute(select(totals))}
    return there == counters.versions(source)


def problems(source: Engine, sink: Engine) -> list[str]:
    """Return the faults at the end of a run; an empty list if every entry arrived once and in order."""
    with sink.connect() as connection:
        given = [(row.kind, bytes(row.payload)) for row in connection.execute(select(heard).order_by(heard.c.n))]
        there = {row.item: row.total for row in connection.execute(select(totals))}
    with source.connect() as connection:
        committed = [bytes(row.payload) for row in connection.execute(select(written))]
    found = []
    try:
        if counters.replay(given) != counters.versions(source):
            found.append("a replay of the sink's entries does not give the source's versions")
    except AssertionError as error:
        found.append(str(error).partition("\n")[0])
    if there != counters.versions(source):
        found.append("the totals counted at the sink differ from the source's versions")
    if len(committed) != len(set(committed)):
        found.append("the source itself has written an entry twice")
    if unknown := {payload for kind, payload in given if kind == "log"} - set(committed):
        found.append(f"the sink has {len(unknown)} entries that the source never committed")
    return found


def facts(source: Engine, sink: Engine) -> dict[str, int]:
    """Count commits, deliveries and snapshots, so that a test can rule out an idle run."""
    with source.connect() as connection:
        committed = len(connection.execute(select(written.c.n)).all())
    with sink.connect() as connection:
        kinds = [row.kind for row in connection.execute(select(heard.c.kind))]
    return {"committed": committed, "delivered": kinds.count("log"), "snapshots": kinds.count("complete")}
