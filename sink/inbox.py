"""One receive queue in one transaction: its marks, and the save of changed marks."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from queues.database.dialect import Statement
from queues.names import ClientName, SiteId
from queues.positions import Header
from queues.receive import entries as receive_entries
from queues.receive import writer_marks
from queues.receive.entries import NO_BLOCKS
from queues.receive.log_blocks import NewBlocks
from queues.receive.marks import ReceiveState
from queues.receive.optimistic_marks import ExpectedMarks
from queues.receive.writer_marks import LockedMarks, Stored


@dataclass(slots=True)
class Inbox:
    """A receive queue in one transaction; the queue is registered when its first state is stored.

    `marks` equal those of `kept`. If `kept` is None, the queue is not registered and its marks are only in memory. An
    inbox with expected marks serves a single batch. `receive_bytes` limits the unapplied log entries; 0 for no limit.
    """

    connection: Connection
    client: ClientName
    source: SiteId
    now_us: int
    marks: ReceiveState
    kept: LockedMarks | ExpectedMarks | None
    receive_bytes: int = 0

    def stored(self) -> Stored | None:
        """Return the queue as stored once the transaction is committed; None if the queue is not registered."""
        return None if self.kept is None else self.kept.stored

    def applied(self) -> tuple[int, int]:
        """Return the subscriber's progress: the sequence up to which entries are applied, and the applied bytes."""
        stored = self.stored()
        return (0, 0) if stored is None else (stored.applied_seq, stored.applied_bytes)

    @property
    def version(self) -> int:
        """The number of changes of the stored marks; 0 if the queue is not registered."""
        stored = self.stored()
        return 0 if stored is None else stored.version

    def fence(self, generation: int) -> None:
        """Refuse lower generations than *generation*, without storing it."""
        self.marks = replace(self.marks, generation=max(generation, self.marks.generation))

    def begin_stream(self, generation: int) -> None:
        """Change the version of the marks, so that all earlier streams are refused from now on, and fence *generation*.

        An unregistered queue has no marks to change: its registration refuses every other stream.
        """
        self.fence(generation)
        if self.kept is not None:
            self.save(self.marks)

    def queue_id(self) -> int:
        """Return the queue's id; an unregistered queue is registered."""
        return self._registered().stored.queue_id

    def adding(self, headers: Sequence[Header]) -> Sequence[Statement]:
        """Return the statements that store *headers*, for `save`; an unregistered queue is registered."""
        registered = self._registered()
        queue = registered.stored
        added = receive_entries.add_headers(
            self.connection, queue.queue_id, headers, version=queue.version, pruned_seq=queue.pruned_seq
        )
        self.kept = replace(registered, stored=queue._replace(pruned_seq=added.pruned_seq))
        return added.statements

    def save(
        self,
        marks: ReceiveState,
        changes: Sequence[Statement] = (),
        new: NewBlocks = NO_BLOCKS,
        *,
        last: bool = False,
        applied_seq: int | None = None,
    ) -> None:
        """Store *marks*, other *changes* and *new* blocks together; see `LockedMarks.save` for *last*.

        The marks of the subscriber say *applied_seq* now, if given.
        """
        saved = self._registered().save(self.connection, marks, self.now_us, new=new, changes=changes, last=last)
        if applied_seq is not None:
            saved = replace(saved, stored=saved.stored._replace(applied_seq=applied_seq))
        self.kept, self.marks = saved, marks

    def _registered(self) -> LockedMarks | ExpectedMarks:
        if self.kept is None:
            queue_id = writer_marks.register(self.connection, self.client, self.source, self.now_us)
            self.kept = LockedMarks(Stored(queue_id, 0, self.marks, 0, undoes=False))
        return self.kept


def open_inbox(
    connection: Connection,
    client: ClientName,
    source: SiteId,
    writer: int,
    now_us: int,
    *,
    receive_bytes: int = 0,
) -> Inbox:
    """Read and lock the marks of a receive queue; see `writer_marks.find`."""
    stored = writer_marks.find(connection, client, source, writer)
    if stored is None:
        return Inbox(connection, client, source, now_us, ReceiveState(), None, receive_bytes)
    return Inbox(connection, client, source, now_us, stored.marks, LockedMarks(stored), receive_bytes)


def expect_inbox(
    connection: Connection,
    client: ClientName,
    source: SiteId,
    expected: ExpectedMarks,
    now_us: int,
    *,
    receive_bytes: int = 0,
) -> Inbox:
    """Open a receive queue with *expected* marks, for one batch; see `optimistic_marks`."""
    return Inbox(connection, client, source, now_us, expected.stored.marks, expected, receive_bytes)
