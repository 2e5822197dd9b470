"""Write the rows of one part of a snapshot in bounded batches, each in its own short transaction."""

import threading
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Final

from sqlalchemy import ColumnElement, Connection, Engine, delete, or_, select

from queues.checksum import combine
from queues.clock import SYSTEM_CLOCK, Clock
from queues.database import dialects
from queues.database.tables.snapshots import snapshot_blocks
from queues.database.transactions import writing
from queues.errors import PayloadTooLargeError, SnapshotFailedError, StoreUnavailableError
from queues.send_snapshot.block_packer import Batch, PackedRows, WriteLimits
from queues.send_snapshot.states import END_ORD, Part

#: The pause before a retry on an unavailable database, in seconds.
_PAUSE = 0.1
#: The block without rows that tells the end of a part.
END_OF_PART: Final = PackedRows(0, 0, b"")


def persistently(
    action: Callable[[bool], None], *, patience: float, stop: threading.Event, clock: Clock = SYSTEM_CLOCK
) -> None:
    """Call *action*, and repeat it for *patience* seconds while the database is unavailable.

    *action* receives True on a repetition: the failed call before it may still have committed.
    """
    give_up = clock.monotonic() + patience
    again = False
    while True:
        try:
            action(again)
        except StoreUnavailableError:
            if clock.monotonic() >= give_up or clock.wait(stop, _PAUSE):
                raise
            again = True
        else:
            return


class PartWriter:
    """Appends rows to (sync_id, part, attempt); the rows are invisible until the attempt is published.

    `in_batch` is called in each batch's transaction, after the rows, with the new totals. The callback may raise to
    refuse the batch. `stop` ends every wait. A writer must not be shared by threads.
    """

    def __init__(
        self,
        engine: Engine,
        sync_id: str,
        *,
        part: int,
        attempt: int,
        limits: WriteLimits,
        in_batch: Callable[[Connection, Part], None],
        stop: threading.Event | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._engine = engine
        self._sync_id = sync_id
        self._limits = limits
        self._in_batch = in_batch
        self._stop = threading.Event() if stop is None else stop
        self._clock = clock
        self._written = Part(part, attempt, rows=0, bytes=0, checksum=0)
        self._batch = Batch(limits)

    @property
    def written(self) -> Part:
        """The rows that are in the database so far."""
        return self._written

    def add(self, payload: bytes, item_key: str | None) -> None:
        """Append one row; raise `PayloadTooLargeError`, or the errors of `flush` when the batch is full."""
        self._check_size(len(payload))
        if not self._batch.add(payload, item_key):
            self.flush()
            self._batch.add(payload, item_key)
        if self._batch.is_full:
            self.flush()

    def add_many(self, payloads: Sequence[bytes], item_keys: Sequence[str | None]) -> None:
        """Append rows, faster than `add` for each. If one payload is too large, none is appended."""
        self._check_size(max(map(len, payloads), default=0))
        sizes = list(accumulate(map(len, payloads), initial=0))
        start = 0
        while start < len(payloads):
            taken = self._batch.extend(payloads, item_keys, sizes, start)
            start += taken
            if not taken or self._batch.is_full:
                self.flush()

    def flush(self) -> None:
        """Write the rows added so far; raise `StoreUnavailableError` if the database stays unavailable."""
        self._store(is_end=False)

    def finish(self) -> None:
        """Write the last rows, and that the part has no more: `growing` may read the next part now.

        Raises the errors of `flush`.
        """
        self._store(is_end=True)

    def _store(self, *, is_end: bool) -> None:
        batch, before = self._batch, self._written
        blocks = [*batch.close(), *([END_OF_PART] if is_end else [])]
        if not blocks:
            return
        after = Part(
            before.part,
            before.attempt,
            before.rows + batch.rows,
            before.bytes + batch.bytes,
            combine(before.checksum, batch.checksum),
        )
        persistently(
            lambda again: self._insert(blocks, after, again=again),
            patience=self._limits.patience,
            stop=self._stop,
            clock=self._clock,
        )
        self._written = after
        self._batch = Batch(self._limits)

    def _check_size(self, size: int) -> None:
        if size > self._limits.payload_bytes:
            raise PayloadTooLargeError(size, self._limits.payload_bytes)

    def _insert(self, blocks: Sequence[PackedRows], after: Part, *, again: bool) -> None:
        with writing(self._engine) as connection:
            began = self._clock.monotonic()
            if again:  # the failed commit may have succeeded before the connection broke
                self._delete_batch(connection)
            self._hurry(connection)
            count = len(blocks)
            rows = [block.rows for block in blocks]
            upto = list(accumulate(rows, initial=self._written.rows))[1:]
            columns: dict[str, Sequence[object]] = {
                "sync_id": [self._sync_id] * count,
                "part": [after.part] * count,
                "attempt": [after.attempt] * count,
                "last_ord": [last if count else END_ORD for last, count in zip(upto, rows, strict=True)],
                "row_count": rows,
                "plain_size": [block.plain_size for block in blocks],
                "block": [block.block for block in blocks],
            }
            dialects.of(connection).bulk_insert_columns(connection, snapshot_blocks, columns)
            self._in_batch(connection, after)
        if dialects.of(self._engine).one_writer:
            # Other writers poll for the single write lock, so it stays free for as long as it was held.
            self._clock.wait(self._stop, self._clock.monotonic() - began)

    def _hurry(self, connection: Connection) -> None:
        """Commit without waiting for the disk: the publication waits for all commits before it.

        A crash of the database may lose the newest batches. After such a loss no further batch may follow.
        """
        if not dialects.of(connection).hasten_commit(connection):
            return
        stored, before = snapshot_blocks.c, self._written
        newest = select(stored.last_ord).where(*self._own(), stored.last_ord == before.rows)
        if before.rows and connection.execute(newest).first() is None:
            raise SnapshotFailedError(
                f"rows up to {before.rows} of part {before.part} are lost: has the database crashed?"
            )

    def _own(self) -> tuple[ColumnElement[bool], ...]:
        stored, written = snapshot_blocks.c, self._written
        return stored.sync_id == self._sync_id, stored.part == written.part, stored.attempt == written.attempt

    def _delete_batch(self, connection: Connection) -> None:
        last_ord = snapshot_blocks.c.last_ord
        newer = or_(last_ord > self._written.rows, last_ord == END_ORD)
        connection.execute(delete(snapshot_blocks).where(*self._own(), newer))
