"""A snapshot leaves while it is being built: each row once, and none of an attempt that has failed."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from sqlalchemy import Engine

from lr_server.session import snapshot_frames
from lr_server.session.frame_sources import SnapshotFrame
from queues.blocks import decode_snapshot
from queues.database.transactions import writing
from queues.errors import SnapshotCancelledError
from queues.send_snapshot import SnapshotState
from queues.send_snapshot import attempts as snapshot_attempts
from queues.send_snapshot.block_packer import WriteLimits
from queues.send_snapshot.states import Attempt
from queues.wire import replication_pb2 as pb
from sink.rests import Rest
from tests.lr_client.snapshot.providing import BASE, by_id, claim, end_part, publish, request, write_part
from tests.lr_server.session.snapshot_work import work_of


@pytest.fixture
def attempt(site: Engine) -> Attempt:
    request(site, "tokyo")
    made = claim(site)
    with writing(site) as connection:
        snapshot_attempts.pin(connection, made, BASE)
    return made


def steps_of(site: Engine, attempt: Attempt, after_row: int = 0, mixed: list[None] | None = None) -> Iterator[object]:
    work = work_of(
        site, by_id(site, attempt.sync_id), after_row, mixed=lambda: None if mixed is None else mixed.append(None)
    )
    return snapshot_frames.frames(site, work, chunk_bytes=lambda: 1)


def upto_rest(steps: Iterator[object]) -> list[bytes]:
    """Return the payloads of the frames until the next wait, or until the end of the snapshot."""
    found: list[bytes] = []
    for step in steps:
        if isinstance(step, Rest):
            break
        assert isinstance(step, tuple)
        found += payloads(step)
    return found


def payloads(step: SnapshotFrame) -> list[bytes]:
    blocks = step[0].snapshot_chunk.blocks
    return [payload for block in blocks for payload in decode_snapshot(block, 1 << 20).payloads]


def test_rows_leave_during_the_build_and_the_end_leaves_after_it(site: Engine, attempt: Attempt) -> None:
    steps = steps_of(site, attempt)
    assert upto_rest(steps) == []
    writer = write_part(site, attempt, 0, [b"1", b"2"], limits=WriteLimits(block_rows=1))
    assert upto_rest(steps) == [b"1", b"2"]
    writer.add(b"3", None)
    writer.flush()
    publish(site, attempt, writer)
    *rows, (end, last, _) = steps
    assert [payload for step in rows for payload in payloads(step)] == [b"3"]  # type: ignore[arg-type]
    assert (end.snapshot_end.rows, last) == (3, 3)


def test_a_transfer_goes_on_after_the_rows_that_the_sink_has(site: Engine, attempt: Attempt) -> None:
    writers = [end_part(site, attempt, number, [b"%d" % number] * 2, chance=number + 1) for number in range(3)]
    steps = steps_of(site, attempt, after_row=2)
    assert upto_rest(steps) == [b"1", b"1", b"2", b"2"]
    publish(site, attempt, *writers)
    assert upto_rest(steps) == []


def test_no_row_follows_the_failure_of_the_attempt(site: Engine, attempt: Attempt) -> None:
    steps = steps_of(site, attempt)
    write_part(site, attempt, 0, [b"1"])
    assert upto_rest(steps) == [b"1"]
    with writing(site) as connection:
        assert snapshot_attempts.fail(connection, attempt, "no memory", retry_after=0)
    with pytest.raises(SnapshotCancelledError, match="has ended without a snapshot"):
        next(steps)
    claim(site)
    with pytest.raises(SnapshotCancelledError, match="has ended without a snapshot"):
        upto_rest(steps_of_earlier(site, attempt))


def steps_of_earlier(site: Engine, attempt: Attempt) -> Iterator[object]:
    """Return the frames of a work that began before the attempt failed."""
    found = replace(by_id(site, attempt.sync_id), state=SnapshotState.BUILDING, build=attempt.build)
    return snapshot_frames.frames(site, work_of(site, found), chunk_bytes=lambda: 1)


def test_a_transfer_of_another_try_than_the_published_one_ends(site: Engine, attempt: Attempt) -> None:
    mixed: list[None] = []
    steps = steps_of(site, attempt, mixed=mixed)
    end_part(site, attempt, 0, [b"1"], chance=1)
    assert upto_rest(steps) == [b"1"]
    other = end_part(site, attempt, 0, [b"one"], chance=2)
    publish(site, attempt, other)
    with pytest.raises(SnapshotCancelledError, match="another try"):
        next(steps)
    assert mixed


def test_a_sink_forgets_staged_rows_before_those_of_another_build(site: Engine, attempt: Attempt) -> None:
    work = work_of(site, by_id(site, attempt.sync_id), forgets=True)
    steps = snapshot_frames.frames(site, work, chunk_bytes=lambda: 1)
    first = next(steps)
    assert isinstance(first, tuple)
    other = first[0].snapshot_begin.sync_id
    assert other not in ("", attempt.sync_id)
    for staged in (pb.SnapshotProgress(sync_id=attempt.sync_id, rows=5), pb.SnapshotProgress(sync_id=other)):
        assert isinstance(next(steps), Rest)
        assert not work.sent.counts(pb.Ack(staging=staged))
    second = next(steps)
    assert isinstance(second, tuple)
    assert second[0].snapshot_begin.sync_id == attempt.sync_id
    assert work.sent.counts(pb.Ack(staging=pb.SnapshotProgress(sync_id=attempt.sync_id)))
