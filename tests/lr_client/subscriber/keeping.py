"""An application that keeps the received entries in a table, undoes lost ones, and begins anew with each snapshot."""

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import BigInteger, Column, Engine, Integer, MetaData, Table, Text, delete, insert, select
from sqlalchemy.orm import Session

from lr_client.subscriber.listener import RoutingQueueListener
from queues.database.transactions import reading
from queues.positions import Position
from queues.wire.entry_pb2 import RoutingTableEntryMsg

#: The kept entries in the order in which they were applied; rows of a snapshot have the sequence 0.
held = Table(
    "held",
    MetaData(),
    Column("n", Integer, primary_key=True),
    Column("seq", BigInteger, nullable=False),
    Column("key", Text),
    Column("payload", Text, nullable=False),
)


class Held(NamedTuple):
    """A kept entry."""

    seq: int
    key: str | None
    payload: str


class Keep(RoutingQueueListener):
    """Keeps the present state of the source."""

    client_name = "policy"

    def process_updates_in_snapshot_sync(
        self, session: Session, source_id: str, entries: Sequence[RoutingTableEntryMsg]
    ) -> bool:
        _insert(session, [(0, entry) for entry in entries])
        return True

    def process_updates_in_log_entry_sync(
        self, session: Session, source_id: str, entries: Sequence[RoutingTableEntryMsg]
    ) -> bool:
        _insert(session, [(entry.sequence, entry) for entry in entries])
        return True

    def on_snapshot_sync_start(self, session: Session, source_id: str) -> None:
        session.execute(delete(held))

    def on_rollback(self, session: Session, source_id: str, position: Position) -> None:
        session.execute(delete(held).where(held.c.seq > position.seq))


def _insert(session: Session, entries: Sequence[tuple[int, RoutingTableEntryMsg]]) -> None:
    rows = [
        {
            "seq": seq,
            "key": entry.partition_key if entry.HasField("partition_key") else None,
            "payload": entry.opaque_payload.decode(),
        }
        for seq, entry in entries
    ]
    if rows:
        session.execute(insert(held), rows)


def kept(engine: Engine) -> list[Held]:
    """Return the kept entries in the order in which they were applied."""
    with reading(engine) as connection:
        rows = connection.execute(select(held.c.seq, held.c.key, held.c.payload).order_by(held.c.n))
        return [Held(*row) for row in rows]
