"""The offset of a Spark stream in a receive queue, and the spans that remain after it. Pure."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Self

from queues.receive.consumer_marks import IN_LOG, IN_SNAPSHOT, Consumed, Received

#: Kinds of marker rows, which are not entries: a newer snapshot begins, or all its rows have come.
SNAPSHOT_START: Final = "snapshot_start"
SNAPSHOT_COMPLETE: Final = "snapshot_complete"


#: The fields of `Consumed` that an offset has; the end of a stream is no place.
MARKS: Final = 5


class Offset(NamedTuple):
    """A place in one receive queue.

    The first five fields equal the subscriber's marks. `total` is the marks' `applied_total` after the removal of all
    entries up to this place. A higher value shows that another subscriber removed entries. `entries` is the number of
    entries in the micro-batch that ends here. A lower count shows that entries are missing.
    """

    phase: str
    sync_id: str
    row_no: int
    branch: str
    seq: int
    total: int
    entries: int = 0

    @classmethod
    def parse(cls, kept: Mapping[str, Any]) -> Self:
        """Parse the result of `_asdict` from a checkpoint."""
        return cls(**kept)

    @property
    def consumed(self) -> Consumed:
        """The marks of a subscriber at this place."""
        return Consumed(*self[:MARKS])


class Span(NamedTuple):
    """Entries of a snapshot (`kind` is IN_SNAPSHOT) or of the log, numbered `after < number <= upto`."""

    kind: str
    sync_id: str
    branch: str
    after: int
    upto: int


def remaining(at: Consumed, received: Received) -> list[Span]:
    """Return the spans after *at*: the rest of the newest snapshot first, then the log; no span is empty."""
    same = at.sync_id == received.sync_id
    in_log = same and at.phase == IN_LOG
    row = received.sync_rows if in_log else at.row_no if same else 0
    seq = at.seq if in_log else received.base_seq
    spans = (
        Span(IN_SNAPSHOT, received.sync_id, "", row, received.sync_rows),
        Span(IN_LOG, received.sync_id, received.branch, seq, received.boundary_seq),
    )
    return [span for span in spans if span.upto > span.after]


def between(start: Offset, end: Offset, received: Received) -> Span:
    """Return the span of the micro-batch from *start* to *end*; *received* must be of the same snapshot as *end*."""
    same = start.sync_id == end.sync_id
    if end.phase == IN_SNAPSHOT:
        return Span(IN_SNAPSHOT, end.sync_id, "", start.row_no if same else 0, end.row_no)
    after = start.seq if same and start.phase == IN_LOG else received.base_seq
    return Span(IN_LOG, end.sync_id, end.branch, after, end.seq)


def markers(start: Offset, end: Offset) -> tuple[str, ...]:
    """Return the kinds of snapshot markers at the beginning of the micro-batch from *start* to *end*."""
    newer = start.sync_id != end.sync_id
    completes = end.phase == IN_LOG and (newer or start.phase == IN_SNAPSHOT)
    return (SNAPSHOT_START,) * newer + (SNAPSHOT_COMPLETE,) * completes


def reached(at: Offset, span: Span, number: int, entries: int, received: Received) -> Offset:
    """Return the offset after the first *entries* entries of *span*; *number* is the last one's number."""
    if span.kind == IN_SNAPSHOT:
        return Offset(IN_SNAPSHOT, span.sync_id, number, "", 0, at.total + entries, entries)
    return Offset(IN_LOG, span.sync_id, received.sync_rows, span.branch, number, at.total + entries, entries)


def at_end(received: Received) -> Consumed:
    """Return the marks of a subscriber that has consumed everything received."""
    return Consumed(IN_LOG, received.sync_id, received.sync_rows, received.branch, received.boundary_seq)


def is_before(consumed: Consumed, at: Offset) -> bool:
    """Return whether *at* is after *consumed* if no entry lies between; *at* must be of the newest snapshot."""
    mine = (consumed.phase == IN_LOG, consumed.row_no, consumed.seq)
    return consumed.sync_id != at.sync_id or mine < (at.phase == IN_LOG, at.row_no, at.seq)
