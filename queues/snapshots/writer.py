"""Writing the rows of one part of a snapshot, in bounded batches, each in a short transaction of its own."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, Engine, delete, select

from queues import dialects
from queues.checksum import combine, rows_checksum
from queues.clock import SYSTEM_CLOCK, Clock
from queues.errors import PayloadTooLargeError, SnapshotFailedError, StoreUnavailableError
from queues.snapshots.states import Part
from queues.tables import snapshot_entries
from queues.transactions import writing

#: Between two tries of an unavailable database, in seconds.
_PAUSE = 0.1


@dataclass(frozen=True, slots=True)
class WriteLimits:
    """Bounds of one batch and of one payload, and how long a busy database is tried again, in seconds."""

    batch_rows: int = 2_000
    batch_bytes: int = 4 * 1024 * 1024
    payload_bytes: int = 16 * 1024 * 1024
    patience: float = 60.0


def persistently(
    action: Callable[[bool], None], *, patience: float, stop: threading.Event, clock: Clock = SYSTEM_CLOCK
) -> None:
    """Do *action*, again and again for *patience* seconds while the database is unavailable.

    It is told whether this is a repetition: then the one before may have succeeded all the same.
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
    """Appends rows to (sync_id, part, attempt); nobody sees them until the attempt is published.

    `in_batch` is called in each batch's transaction, behind its rows, with what will have been written: it may
    raise to refuse the batch. `stop`, when set, ends every wait. Not for several threads at once.
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
        self._payloads: list[bytes] = []
        self._keys: list[str | None] = []
        self._bytes = 0

    @property
    def written(self) -> Part:
        """What is in the database so far."""
        return self._written

    def add(self, payload: bytes, item_key: str | None) -> None:
        """Append one row; raise `PayloadTooLargeError` or what a full batch meets."""
        if len(payload) > self._limits.payload_bytes:
            raise PayloadTooLargeError(len(payload), self._limits.payload_bytes)
        if self._payloads and self._bytes + len(payload) > self._limits.batch_bytes:
            self.flush()
        self._payloads.append(payload)
        self._keys.append(item_key or None)
        self._bytes += len(payload)
        if len(self._payloads) >= self._limits.batch_rows:
            self.flush()

    def add_many(self, payloads: Sequence[bytes], item_keys: Sequence[str | None]) -> None:
        """Append rows; the same as `add` for each, and quicker where they fit into the batch together."""
        size, largest = sum(map(len, payloads)), max(map(len, payloads), default=0)
        rows_fit = len(self._payloads) + len(payloads) <= self._limits.batch_rows
        bytes_fit = self._bytes + size <= self._limits.batch_bytes
        if rows_fit and bytes_fit and largest <= self._limits.payload_bytes:
            self._payloads += payloads
            self._keys += [key or None for key in item_keys]
            self._bytes += size
            if len(self._payloads) >= self._limits.batch_rows:
                self.flush()
        else:
            for payload, item_key in zip(payloads, item_keys, strict=True):
                self.add(payload, item_key)

    def flush(self) -> None:
        """Write what `add` has gathered; raise `StoreUnavailableError` when the database stays unusable."""
        if not self._payloads:
            return
        before = self._written
        after = Part(
            before.part,
            before.attempt,
            before.rows + len(self._payloads),
            before.bytes + self._bytes,
            combine(before.checksum, rows_checksum(zip(self._payloads, self._keys, strict=True))),
        )
        persistently(
            lambda again: self._insert(after, again=again),
            patience=self._limits.patience,
            stop=self._stop,
            clock=self._clock,
        )
        self._written = after
        self._payloads, self._keys, self._bytes = [], [], 0

    def _insert(self, after: Part, *, again: bool) -> None:
        with writing(self._engine) as connection:
            began = self._clock.monotonic()
            if again:  # the connection may have broken in the commit that did succeed
                self._delete_batch(connection)
            self._hurry(connection)
            count = len(self._payloads)
            columns: dict[str, Sequence[object]] = {
                "sync_id": [self._sync_id] * count,
                "part": [after.part] * count,
                "attempt": [after.attempt] * count,
                "ord": range(after.rows - count + 1, after.rows + 1),
                "item_key": self._keys,
                "payload": self._payloads,
            }
            dialects.of(connection).bulk_insert_columns(connection, snapshot_entries, columns)
            self._in_batch(connection, after)
        if self._engine.dialect.name == "sqlite":
            # Whoever waits for SQLite's one write lock only polls: leave it free for as long as it was held.
            self._clock.wait(self._stop, self._clock.monotonic() - began)

    def _hurry(self, connection: Connection) -> None:
        """Spare this commit the wait for the disk: the publication waits, for all that was committed before it.

        A crash of the database in between takes the newest batches, so nothing may follow one that is gone.
        """
        if connection.dialect.name != "postgresql":
            return
        connection.exec_driver_sql("SET LOCAL synchronous_commit = off")
        entries, before = snapshot_entries.c, self._written
        newest = select(entries.ord).where(*self._own(), entries.ord == before.rows)
        if before.rows and connection.execute(newest).first() is None:
            raise SnapshotFailedError(
                f"rows up to {before.rows} of part {before.part} are lost: has the database crashed?"
            )

    def _own(self) -> tuple[ColumnElement[bool], ...]:
        entries, written = snapshot_entries.c, self._written
        return entries.sync_id == self._sync_id, entries.part == written.part, entries.attempt == written.attempt

    def _delete_batch(self, connection: Connection) -> None:
        newer = snapshot_entries.c.ord > self._written.rows
        connection.execute(delete(snapshot_entries).where(*self._own(), newer))
