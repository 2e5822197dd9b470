"""Fills receive queues as the sink's writer does."""

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, Engine, case, func, insert, select, update

from queues import names
from queues.blocks import EntryRow, SnapshotColumns, encode_snapshot
from queues.database.tables.consumers import consumers
from queues.database.tables.receive import receive_headers, receive_marks, receive_queues, receive_snapshot_blocks
from queues.database.transactions import reading, writing
from queues.positions import Visibility
from queues.receive import consumer_lock, entries, snapshot_blocks
from queues.receive.queue_marks import backlog
from tests.received import insert_block

#: The number of snapshot rows in a block.
BLOCK_ROWS = 2
#: The number of rows of a stored block that the subscriber has not applied yet.
_LEFT = case(
    (
        consumers.c.row_no > receive_snapshot_blocks.c.last_row - receive_snapshot_blocks.c.row_count,
        receive_snapshot_blocks.c.last_row - consumers.c.row_no,
    ),
    else_=receive_snapshot_blocks.c.row_count,
)
#: The source's branch, unless a test needs another one.
BRANCH = "branch-1"


class Arrivals:
    """The entries that one source sends for one client to one sink."""

    def __init__(
        self, engine: Engine, client: str = "policy", source: str = "tokyo", *, log_block_rows: int = 500
    ) -> None:
        self.engine = engine
        self.log_block_rows = log_block_rows
        self.client = names.client_name(client)
        self.source = names.site_id(source)

    def tick(self, *transactions: Sequence[bytes], gap: int = 0, mark: Visibility | None = None) -> int:
        """Receive one tick of whole transactions, after *gap* numbers of other destinations; return the tick's end."""
        with writing(self.engine) as connection:
            marks = self._marks(connection)
            start = marks.seq + gap
            rows: list[EntryRow] = []
            for payloads in transactions:
                rows += _rows(len(rows), start + len(rows) + 1, payloads)
            self._store(connection, marks.queue_id, start, start, rows)
            seq = start + len(rows)
            header = {"queue_id": marks.queue_id, "seq": seq, "branch": BRANCH, "uid": seq}
            connection.execute(insert(receive_headers).values(mark=str(mark or Visibility(high=seq)), **header))
            self._save(connection, branch=BRANCH, seq=seq, boundary_seq=seq)
        return seq

    def keyed(self, *transactions: Sequence[tuple[str | None, bytes]]) -> int:
        """Receive one tick of transactions whose entries have partition keys; return the tick's end."""
        with writing(self.engine) as connection:
            marks = self._marks(connection)
            rows: list[EntryRow] = []
            for entries_ in transactions:
                index = len(rows)
                rows += [EntryRow(payload, index, 1_000, partition_key=key) for key, payload in entries_]
            self._store(connection, marks.queue_id, marks.seq, marks.seq, rows)
            seq = marks.seq + len(rows)
            header = {"queue_id": marks.queue_id, "seq": seq, "branch": BRANCH, "uid": seq}
            connection.execute(insert(receive_headers).values(mark=str(Visibility(high=seq)), **header))
            self._save(connection, branch=BRANCH, seq=seq, boundary_seq=seq)
        return seq

    def go_back(self, seq: int) -> None:
        """Remove the entries after *seq*, because the source lost them."""
        with writing(self.engine) as connection:
            marks = self._marks(connection)
            queue_id = marks.queue_id
            progress = consumer_lock.lock_consumer(connection, queue_id, marks.sync_id)
            if seq < progress.reached_seq:
                consumer_lock.require_rollback(connection, queue_id, seq)
            entries.forget_after(connection, queue_id, seq, progress.applied_seq)
            self._save(connection, seq=seq, boundary_seq=seq)

    def end(self) -> None:
        """Receive the end of the stream."""
        with writing(self.engine) as connection:
            self._save(connection, ended_seq=self._marks(connection).seq)

    def part_of_a_tick(self, payloads: Sequence[bytes]) -> None:
        """Receive rows of a transaction whose tick is not complete."""
        with writing(self.engine) as connection:
            marks = self._marks(connection)
            rows = _rows(0, marks.boundary_seq + 1, payloads)
            self._store(connection, marks.queue_id, marks.boundary_seq, marks.seq, rows)
            self._save(connection, branch=BRANCH, seq=marks.seq + len(payloads))

    def complete_the_tick(self) -> None:
        """Complete the tick of all received rows."""
        with writing(self.engine) as connection:
            self._save(connection, boundary_seq=self._marks(connection).seq)

    def snapshot(self, sync_id: str, payloads: Iterable[bytes], *, base: int = 0, cut: str = "") -> None:
        """Receive a whole snapshot: it replaces all earlier entries, and the log continues after *base*."""
        self.stage(sync_id, payloads)
        self.complete_snapshot(sync_id, base=base, cut=cut)

    def stage(self, sync_id: str, payloads: Iterable[bytes]) -> None:
        """Receive more rows of a snapshot that is not complete yet."""
        with writing(self.engine) as connection:
            queue_id = self._marks(connection).queue_id
            staged = self._staged(connection, queue_id, sync_id)
            rows = list(payloads)
            blocks = [
                encode_snapshot(SnapshotColumns(some, [None] * len(some)))
                for some in (rows[first : first + BLOCK_ROWS] for first in range(0, len(rows), BLOCK_ROWS))
            ]
            if blocks:
                snapshot_blocks.stage(connection, queue_id, sync_id, staged, blocks)

    def complete_snapshot(self, sync_id: str, *, base: int = 0, cut: str = "") -> None:
        """Receive the end marker of a staged snapshot."""
        with writing(self.engine) as connection:
            queue_id = self._marks(connection).queue_id
            entries.clear_log(connection, queue_id)
            snapshot_blocks.drop_staged(connection, queue_id, keep=sync_id)
            position = {"branch": BRANCH, "seq": base, "boundary_seq": base, "cut": cut, "base_seq": base}
            rows = self._staged(connection, queue_id, sync_id)
            self._save(connection, sync_id=sync_id, sync_rows=rows, **position)

    @property
    def left(self) -> int:
        """Return the number of entries, of the log or a snapshot, that are still in the queue."""
        with reading(self.engine) as connection:
            queue_id = self.queue_id(connection)
            left = backlog(connection, queue_id).entries
            blocks = select(func.coalesce(func.sum(_LEFT), 0)).where(receive_snapshot_blocks.c.queue_id == queue_id)
            applied = consumers.c.sync_id == receive_snapshot_blocks.c.sync_id
            blocks = blocks.outerjoin_from(
                receive_snapshot_blocks, consumers, (consumers.c.queue_id == queue_id) & applied
            )
            return left + int(connection.execute(blocks).scalar_one())

    def queue_id(self, connection: Connection) -> int:
        return connection.execute(select(receive_queues.c.queue_id).where(*self._own)).scalar_one()

    @property
    def _own(self) -> tuple[Any, ...]:
        return receive_queues.c.client == self.client, receive_queues.c.source == self.source

    def _marks(self, connection: Connection) -> Any:
        marks = select(receive_marks).join(receive_queues, receive_queues.c.queue_id == receive_marks.c.queue_id)
        return connection.execute(marks.where(*self._own)).first() or self._register(connection)

    def _register(self, connection: Connection) -> Any:
        queue = {"name": names.receive_queue(self.client, self.source), "tag": names.receive_tag(self.client)}
        connection.execute(
            insert(receive_queues).values(client=self.client, source=self.source, registered_us=0, **queue)
        )
        none = {column.name: "" if column.type.python_type is str else 0 for column in receive_marks.columns}
        connection.execute(insert(receive_marks).values(none | {"queue_id": self.queue_id(connection)}))
        return self._marks(connection)

    def _save(self, connection: Connection, **changes: object) -> None:
        own = receive_marks.c.queue_id == self.queue_id(connection)
        connection.execute(update(receive_marks).where(own).values(**changes))

    def _staged(self, connection: Connection, queue_id: int, sync_id: str) -> int:
        table = receive_snapshot_blocks.c
        own = (table.queue_id == queue_id, table.sync_id == sync_id)
        return connection.execute(select(func.coalesce(func.max(table.last_row), 0)).where(*own)).scalar_one()

    def _store(
        self, connection: Connection, queue_id: int, tick_seq: int, start_seq: int, rows: Sequence[EntryRow]
    ) -> None:
        for first in range(0, len(rows), self.log_block_rows):
            some = rows[first : first + self.log_block_rows]
            insert_block(connection, queue_id, tick_seq, start_seq + first, some)


def _rows(index: int, transaction: int, payloads: Sequence[bytes]) -> list[EntryRow]:
    return [EntryRow(payload, index, 1_000 + transaction) for payload in payloads]
