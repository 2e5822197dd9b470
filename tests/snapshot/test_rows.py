"""Rows of a snapshot: all or none of them, readable from any row on, collected in the end."""

import pytest
from sqlalchemy import Engine

from queues import snapshots
from queues.checksum import combine, row_checksum
from queues.errors import PayloadTooLargeError, SnapshotCancelledError, SnapshotFailedError
from queues.positions import Position
from queues.snapshots import attempts as snapshot_attempts
from queues.snapshots.states import Part
from queues.snapshots.writer import PartWriter, WriteLimits
from queues.transactions import reading, writing
from tests.snapshot.providing import (
    TOKYO,
    by_id,
    claim,
    newest,
    payloads_of,
    publish,
    request,
    rows_of,
    stored,
    write_part,
)


def collect(engine: Engine, **options: float) -> list[int]:
    """Collect until nothing is left; return what each step deleted."""
    steps = []
    while True:
        with writing(engine) as connection:
            steps.append(snapshots.collect_garbage(connection, **options))  # type: ignore[arg-type]
        if not steps[-1]:
            return steps


def test_nothing_is_visible_before_it_is_published_and_then_all_is(site: Engine) -> None:
    (sync_id,) = request(site, "tokyo")
    attempt = claim(site)
    writers = [write_part(site, attempt, part, [b"%d" % part]) for part in (1, 0)]
    with reading(site) as connection, pytest.raises(SnapshotCancelledError, match="building"):
        snapshots.read_rows(connection, sync_id, after_row=0, limit_rows=1, limit_bytes=1)
    publish(site, attempt, *writers, base=Position("b", 7, "id/9"))
    assert payloads_of(site, sync_id) == [b"0", b"1"]
    found = newest(site)
    assert (found.state, found.base, found.rows, found.bytes) == ("ready", Position("b", 7, "id/9"), 2, 2)
    assert found.checksum == combine(row_checksum(b"0", None), row_checksum(b"1", None))


@pytest.mark.parametrize(("limit_rows", "limit_bytes"), [(1, 1000), (3, 1000), (1000, 1), (1000, 25), (1000, 1000)])
def test_rows_are_read_in_order_from_any_row_on(site: Engine, limit_rows: int, limit_bytes: int) -> None:
    (sync_id,) = request(site, "tokyo")
    attempt = claim(site)
    sizes = {0: 4, 1: 0, 5: 1, 6: 7, 9: 3}
    wanted = [b"%d-%d" % (part, n) + b"." * n for part, size in sizes.items() for n in range(size)]
    publish(
        site,
        attempt,
        *(
            write_part(site, attempt, part, [b"%d-%d" % (part, n) + b"." * n for n in range(size)], batch_rows=2)
            for part, size in sizes.items()
        ),
    )
    for start in range(len(wanted) + 1):
        rows = rows_of(site, sync_id, after_row=start, limit_rows=limit_rows, limit_bytes=limit_bytes)
        assert [(row.row_no, row.payload) for row in rows] == list(enumerate(wanted, 1))[start:]


def test_a_read_returns_no_more_than_its_limits_except_one_large_row(site: Engine) -> None:
    (sync_id,) = request(site, "tokyo")
    attempt = claim(site)
    publish(site, attempt, write_part(site, attempt, 0, [b"x" * 10, b"y" * 1000, b"z" * 10]))
    chunks = []
    for after_row in range(3):
        with reading(site) as connection:
            chunks.append(snapshots.read_rows(connection, sync_id, after_row=after_row, limit_rows=10, limit_bytes=50))
    assert [len(chunk) for chunk in chunks] == [1, 1, 1]


def test_an_empty_snapshot_is_ready_and_has_no_rows(site: Engine) -> None:
    (sync_id,) = request(site, "tokyo")
    publish(site, claim(site))
    assert payloads_of(site, sync_id) == []
    assert (newest(site).state, newest(site).rows, newest(site).checksum) == ("ready", 0, 0)


def test_a_part_that_is_not_whole_is_not_published(site: Engine) -> None:
    request(site, "tokyo")
    attempt = claim(site)
    written = write_part(site, attempt, 0, [b"1", b"2"]).written
    torn = Part(written.part, written.attempt, written.rows + 1, written.bytes, written.checksum)
    with pytest.raises(SnapshotFailedError, match="part 0"), writing(site) as connection:
        snapshot_attempts.publish(connection, attempt, base=Position("b", 0), parts=[torn])
    assert newest(site).state == "building"


def test_only_the_named_try_of_a_part_is_visible(site: Engine) -> None:
    (sync_id,) = request(site, "tokyo")
    attempt = claim(site)
    write_part(site, attempt, 0, [b"twin 1", b"twin 2"], chance=1)
    publish(site, attempt, write_part(site, attempt, 0, [b"kept"], chance=2))
    assert payloads_of(site, sync_id) == [b"kept"]
    assert sum(collect(site)) == 2
    assert payloads_of(site, sync_id) == [b"kept"]


def test_rows_of_dead_attempts_are_collected_while_the_next_one_is_building(site: Engine) -> None:
    (sync_id,) = request(site, "tokyo")
    dead = claim(site, owner="dead")
    write_part(site, dead, 0, [b"dead"] * 5)
    assert collect(site) == [0]
    attempt = claim(site, owner="alive")
    writer = write_part(site, attempt, 0, [b"alive"] * 3)
    assert collect(site, limit_rows=2) == [2, 2, 1, 0]
    publish(site, attempt, writer)
    assert payloads_of(site, sync_id) == [b"alive"] * 3


def test_rows_of_a_failed_attempt_are_collected_before_the_next_one(site: Engine) -> None:
    request(site, "tokyo")
    attempt = claim(site)
    write_part(site, attempt, 0, [b"lost"] * 3)
    with writing(site) as connection:
        snapshot_attempts.fail(connection, attempt, "it broke", retry_after=0)
    assert sum(collect(site)) == 3


def test_rows_of_an_applied_snapshot_are_collected_and_its_status_is_kept(site: Engine) -> None:
    (sync_id,) = request(site, "tokyo")
    attempt = claim(site)
    publish(site, attempt, write_part(site, attempt, 0, [b"1", b"2"]))
    with writing(site) as connection:
        snapshots.mark_applied(connection, sync_id)
    assert sum(collect(site, keep=-1)) == 2
    assert (stored(site), by_id(site, sync_id).state) == (0, "applied")
    with reading(site) as connection, pytest.raises(SnapshotCancelledError):
        snapshots.read_rows(connection, sync_id, after_row=0, limit_rows=1, limit_bytes=1)


def test_old_statuses_go_except_the_newest_of_each_site(site: Engine) -> None:
    asked = [request(site, "tokyo")[0] for _ in range(3)]
    collect(site, keep=-1)
    with reading(site) as connection:
        assert [found.sync_id for found in snapshots.listing(connection)] == [asked[-1]]
        assert snapshots.newest(connection, newest(site).client, TOKYO) is not None


def test_a_payload_above_the_limit_is_refused(site: Engine) -> None:
    (sync_id,) = request(site, "tokyo")
    writer = PartWriter(
        site, sync_id, part=0, attempt=1, limits=WriteLimits(payload_bytes=10), in_batch=lambda _c, _p: None
    )
    with pytest.raises(PayloadTooLargeError):
        writer.add(b"x" * 11, None)


def test_a_batch_whose_outcome_was_lost_is_not_doubled(site: Engine) -> None:
    """The commit succeeds, its answer does not arrive: the batch is written again in its own place."""
    (sync_id,) = request(site, "tokyo")
    attempt = claim(site)
    writer = write_part(site, attempt, 0, [b"1", b"2"])
    again = write_part(site, attempt, 1, [])
    again.add(b"3", None)
    again._insert(Part(1, attempt.part_attempt(), 1, 1, row_checksum(b"3", None)), again=False)
    again._insert(Part(1, attempt.part_attempt(), 1, 1, row_checksum(b"3", None)), again=True)
    assert stored(site, sync_id) == 3
    publish(site, attempt, writer)
