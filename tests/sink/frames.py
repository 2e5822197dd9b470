"""Frames of a source, for tests."""

from collections.abc import Sequence

from queues.blocks import EntryRow, SnapshotColumns, encode_entries, encode_snapshot
from queues.checksum import rows_checksum
from queues.positions import Position
from queues.wire import replication_pb2 as pb
from sink.protocol.versions import SPOKEN
from sink.wire import to_position

BRANCH = "b1"


def session(*, source="paris", sink="tokyo", client="policy", generation=1) -> pb.SessionId:
    return pb.SessionId(source=source, sink=sink, client=client, generation=generation)


def request(
    by: pb.SessionId | None = None, *, oldest=SPOKEN.oldest, newest=SPOKEN.newest, rollback_to: Position | None = None
):
    target = None if rollback_to is None else to_position(rollback_to)
    return pb.NegotiateRequest(protocol=oldest, newest_protocol=newest, session=by or session(), rollback_to=target)


def header(start: int, end: int, *, branch=BRANCH, uid: int | None = None) -> pb.TickHeader:
    mark = f"id/{end}"
    return pb.TickHeader(branch=branch, start_seq=start, end_seq=end, uid=uid or end, mark=mark, created_us=7)


def tick(
    start: int, end: int, payloads: Sequence[bytes] = (), *, branch=BRANCH, first_index=0, complete=True, first_of=None
) -> pb.TickGroup:
    """Build a tick of one source transaction; *first_of* gives per row the index of its transaction's first row."""
    firsts = first_of or [0] * len(payloads)
    rows = [EntryRow(payload, first, 1_000) for payload, first in zip(payloads, firsts, strict=True)]
    return pb.TickGroup(
        header=header(start, end, branch=branch),
        block=encode_entries(rows) if rows else None,
        first_index=first_index,
        complete=complete,
    )


def batch(start: int | Position, *groups: pb.TickGroup, by: pb.SessionId | None = None, cut_passed=False) -> pb.Frame:
    """Build a frame with the ticks after *start*; a number is a position in the branch `BRANCH`."""
    position = Position(BRANCH, start) if isinstance(start, int) else start
    part = pb.Batch(start=to_position(position), groups=groups, cut_passed=cut_passed, source_seq=99)
    return pb.Frame(session=by or session(), batch=part)


def begin(sync_id: str, *, by: pb.SessionId | None = None) -> pb.Frame:
    return pb.Frame(session=by or session(), snapshot_begin=pb.SnapshotBegin(sync_id=sync_id))


def chunk(sync_id: str, first_row: int, *blocks: Sequence[bytes], by: pb.SessionId | None = None) -> pb.Frame:
    encoded = [encode_snapshot(SnapshotColumns(payloads, [None] * len(payloads))) for payloads in blocks]
    part = pb.SnapshotChunk(sync_id=sync_id, first_row=first_row, blocks=encoded)
    return pb.Frame(session=by or session(), snapshot_chunk=part)


def end(
    sync_id: str,
    payloads: Sequence[bytes],
    *,
    base: Position | None = None,
    header: pb.TickHeader | None = None,
    by: pb.SessionId | None = None,
    **wrong: int,
) -> pb.Frame:
    """Build the end marker of a snapshot of *payloads*; *wrong* replaces its rows, bytes or checksum."""
    told = {
        "rows": len(payloads),
        "bytes": sum(map(len, payloads)),
        "checksum": rows_checksum((payload, None) for payload in payloads),
    }
    marker = pb.SnapshotEnd(
        sync_id=sync_id, base=to_position(base or Position(BRANCH, 0)), header=header, **(told | wrong)
    )
    return pb.Frame(session=by or session(), snapshot_end=marker)


def numbered(first: int, last: int) -> list[bytes]:
    """Return payloads that name their sequence numbers."""
    return [b"entry %d" % number for number in range(first, last + 1)]


#: A session's first three entries, and the next two.
FIRST = batch(0, tick(0, 3, numbered(1, 3)))
SECOND = batch(3, tick(3, 5, numbered(4, 5)))
