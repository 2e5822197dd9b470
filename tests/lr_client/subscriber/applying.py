"""An application at a sink: it applies entries to a table of its own and records its calls."""

from collections.abc import Callable, Sequence

from sqlalchemy import Column, Engine, Integer, LargeBinary, MetaData, Table, Text, insert, select
from sqlalchemy.orm import Session

from lr_client.subscriber.listener import RoutingQueueListener
from queues.database.transactions import reading
from queues.wire.entry_pb2 import SNAPSHOT_SYNC, RoutingTableEntryMsg

#: The applied entries and callbacks, in their order.
applied = Table(
    "applied",
    MetaData(),
    Column("n", Integer, primary_key=True),
    Column("source", Text, nullable=False),
    Column("what", Text, nullable=False),
    Column("payload", LargeBinary, nullable=False),
)

#: Called with each entry; may raise an error, or return the listener's answer (None for no answer).
OnEntry = Callable[[RoutingTableEntryMsg], object]


class Apply(RoutingQueueListener):
    """Writes a row for each entry and callback into `applied`; *on_entry* can make it refuse."""

    client_name = "policy"

    def __init__(self, on_entry: OnEntry | None = None, *, client: str = "policy") -> None:
        self.client_name = client
        self.calls: list[list[RoutingTableEntryMsg]] = []
        self.errors: list[tuple[str, Exception]] = []
        self._on_entry = on_entry

    def process_updates_in_snapshot_sync(self, session, source_id, entries):
        return self._apply(session, source_id, entries)

    def process_updates_in_log_entry_sync(self, session, source_id, entries):
        return self._apply(session, source_id, entries)

    def on_snapshot_sync_start(self, session, source_id):
        self._note(session, source_id, "start")

    def on_snapshot_sync_complete(self, session, source_id):
        self._note(session, source_id, "complete")

    def on_error(self, source_id, error):
        self.errors.append((source_id, error))

    def _apply(self, session: Session, source_id: str, entries: Sequence[RoutingTableEntryMsg]) -> object:
        self.calls.append(list(entries))
        for entry in entries:
            what = "snapshot" if entry.type == SNAPSHOT_SYNC else "log"
            self._note(session, source_id, what, entry.opaque_payload)
            if self._on_entry and (answer := self._on_entry(entry)) is not None:
                return answer
        return True

    def _note(self, session: Session, source_id: str, what: str, payload: bytes = b"") -> None:
        session.execute(insert(applied).values(source=source_id, what=what, payload=payload))


class Undo(Apply):
    """Records the position of each rollback, too."""

    def on_rollback(self, session, source_id, position):
        self._note(session, source_id, f"back to {position.seq}")


class AfterEach(Undo):
    """Calls `after` at the end of each call, with the kind of the call: log, rows, start, complete or rollback."""

    def after(self, kind: str, session: Session) -> bool:
        """Return the answer of the call; may raise an error, or end the transaction."""
        raise NotImplementedError

    def process_updates_in_log_entry_sync(self, session, source_id, entries):
        return super().process_updates_in_log_entry_sync(session, source_id, entries) and self.after("log", session)

    def process_updates_in_snapshot_sync(self, session, source_id, entries):
        return super().process_updates_in_snapshot_sync(session, source_id, entries) and self.after("rows", session)

    def on_snapshot_sync_start(self, session, source_id):
        super().on_snapshot_sync_start(session, source_id)
        self.after("start", session)

    def on_snapshot_sync_complete(self, session, source_id):
        super().on_snapshot_sync_complete(session, source_id)
        self.after("complete", session)

    def on_rollback(self, session, source_id, position):
        super().on_rollback(session, source_id, position)
        self.after("rollback", session)


def story(engine: Engine, source: str = "tokyo") -> list[str]:
    """Return the applied entries from *source*: payloads as text, callbacks by their names in brackets."""
    with reading(engine) as connection:
        rows = connection.execute(select(applied).where(applied.c.source == source).order_by(applied.c.n)).all()
    return [row.payload.decode() if row.what in ("log", "snapshot") else f"<{row.what}>" for row in rows]


def payloads(prefix: str, count: int) -> list[bytes]:
    """Return *count* payloads that name their numbers."""
    return [f"{prefix}{n}".encode() for n in range(1, count + 1)]


def texts(prefix: str, count: int) -> list[str]:
    """Return the texts of `payloads(prefix, count)`."""
    return [payload.decode() for payload in payloads(prefix, count)]
