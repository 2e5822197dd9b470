"""The time of a listener for a snapshot that has arrived: columns against entries, both loaded by COPY."""

import threading
from collections.abc import Iterable
from time import perf_counter

from sqlalchemy import Engine, text
from sqlalchemy.orm import Session

from lr_client.subscriber.column_batch import ColumnBatch
from lr_client.subscriber.listener import RoutingQueueListener
from lr_client.subscriber.subscription import subscribe
from queues.wire.entry_pb2 import RoutingTableEntryMsg

_TABLE = "CREATE TABLE IF NOT EXISTS loaded (id text, body bytea)"
_COPY = "COPY loaded (id, body) FROM STDIN"
_PATIENCE = 1800.0


class ByEntries(RoutingQueueListener):
    """Loads each call's rows by COPY, and records the end of the snapshot."""

    def __init__(self, client: str) -> None:
        self.client_name = client
        self.ended = threading.Event()

    def process_updates_in_snapshot_sync(
        self,
        session: Session,
        source_id: str,  # noqa: ARG002 - a listener's
        entries: Iterable[RoutingTableEntryMsg],
    ) -> bool:
        """Load rows of the snapshot."""
        return _load(session, ((entry.item_key, entry.opaque_payload) for entry in entries))

    def process_updates_in_log_entry_sync(
        self,
        session: Session,  # noqa: ARG002 - a listener's
        source_id: str,  # noqa: ARG002
        entries: Iterable[RoutingTableEntryMsg],  # noqa: ARG002
    ) -> bool:
        """Do nothing: the benchmark writes no log."""
        return True

    def on_snapshot_sync_complete(self, session: Session, source_id: str) -> None:  # noqa: ARG002 - a listener's
        """Record the end."""
        self.ended.set()


class ByColumns(ByEntries):
    """The same, with the bulk form."""

    def process_snapshot_columns(self, session: Session, source_id: str, columns: ColumnBatch) -> bool:  # noqa: ARG002
        """Load rows of the snapshot."""
        return _load(session, zip(columns.item_keys, columns.payloads, strict=True))


def apply_seconds(sink: Engine, listener: ByEntries) -> float:
    """Return the seconds of *listener* for the snapshot that waits at *sink*; raise `TimeoutError` after 30 minutes."""
    with sink.begin() as connection:
        connection.execute(text(_TABLE))
        connection.execute(text("TRUNCATE loaded"))
    began = perf_counter()
    subscription = subscribe(sink, listener)
    try:
        if not listener.ended.wait(_PATIENCE):
            raise TimeoutError("the listener has not got the whole snapshot")
        return perf_counter() - began
    finally:
        subscription.close()


def _load(session: Session, rows: Iterable[tuple[str | None, bytes]]) -> bool:
    with session.connection().connection.cursor().copy(_COPY) as copy:
        for row in rows:
            copy.write_row(row)
    return True
