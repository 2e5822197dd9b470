"""The rows of a snapshot that is being built, in the order in which the snapshot will have them."""

import pytest
from sqlalchemy import Engine

from queues import send_snapshot
from queues.database.transactions import reading
from queues.send_snapshot import RowPlace, growing
from queues.send_snapshot.block_packer import WriteLimits
from queues.send_snapshot.states import Attempt
from tests.lr_client.snapshot.providing import claim, end_part, publish, request, rows_of, write_part

EACH = WriteLimits(block_rows=1)


@pytest.fixture
def attempt(site: Engine) -> Attempt:
    request(site, "tokyo")
    return claim(site)


def grown(
    engine: Engine, attempt: Attempt, place: RowPlace | None = None, *, limit_bytes: int = 1
) -> tuple[list[tuple[int, bytes]], RowPlace]:
    """Return all rows after *place* with their numbers, and the place after them."""
    rows: list[tuple[int, bytes]] = []
    place = place or RowPlace()
    while True:
        with reading(engine) as connection:
            blocks, place = send_snapshot.read_growing(
                connection, attempt.sync_id, attempt.build, place, limit_bytes=limit_bytes
            )
        if not blocks:
            return rows, place
        for block in blocks:
            rows += enumerate(block.unpack().payloads, block.first_row)


def place_after(engine: Engine, attempt: Attempt, row: int) -> RowPlace | None:
    with reading(engine) as connection:
        return send_snapshot.place_after(connection, attempt.build, row)


def is_published(engine: Engine, attempt: Attempt, sent: dict[int, int]) -> bool:
    with reading(engine) as connection:
        return send_snapshot.is_published(connection, attempt.build, sent)


@pytest.mark.parametrize("limit_bytes", [1, 1 << 20])
def test_rows_that_are_added_in_order_are_read_as_soon_as_they_are_stored(
    site: Engine, attempt: Attempt, limit_bytes: int
) -> None:
    assert grown(site, attempt) == ([], RowPlace())
    writer = write_part(site, attempt, 0, [b"1", b"2"], limits=EACH)
    rows, place = grown(site, attempt, limit_bytes=limit_bytes)
    assert rows == [(1, b"1"), (2, b"2")]
    writer.add(b"3", None)
    assert grown(site, attempt, place) == ([], place)
    writer.flush()
    assert grown(site, attempt, place)[0] == [(3, b"3")]


def test_the_rows_of_a_part_count_once_it_has_ended_and_all_parts_before_it_have(
    site: Engine, attempt: Attempt
) -> None:
    end_part(site, attempt, 1, [b"4"], chance=7)
    first = write_part(site, attempt, 0, [b"1", b"2", b"3"], chance=8)
    assert grown(site, attempt) == ([], RowPlace())
    first.finish()
    rows, place = grown(site, attempt)
    assert rows == [(1, b"1"), (2, b"2"), (3, b"3"), (4, b"4")]
    end_part(site, attempt, 2, [], chance=9)
    end_part(site, attempt, 3, [b"5"], chance=9)
    assert grown(site, attempt, place)[0] == [(5, b"5")]


def test_the_order_is_that_of_the_complete_snapshot(site: Engine, attempt: Attempt) -> None:
    parts = [[b"1", b"2", b"3"], [], [b"4"], [b"5", b"6"]]
    writers = [end_part(site, attempt, number, part, chance=number + 1) for number, part in enumerate(parts)]
    before, _ = grown(site, attempt)
    publish(site, attempt, *writers)
    assert before == [(row.row_no, row.payload) for row in rows_of(site, attempt.sync_id)]


def test_a_try_without_an_end_and_an_earlier_attempt_do_not_count(site: Engine, attempt: Attempt) -> None:
    end_part(site, attempt, 0, [b"of another attempt"], chance=1)
    later = Attempt(
        attempt.sync_id, attempt.client, attempt.destination, attempt.reason, attempt.owner, attempt.number + 1
    )
    write_part(site, later, 0, [b"killed"], chance=5)
    assert grown(site, later) == ([], RowPlace())
    end_part(site, later, 0, [b"1"], chance=6)
    assert grown(site, later)[0] == [(1, b"1")]
    assert grown(site, attempt)[0] == [(1, b"of another attempt")]


def test_a_writer_whose_last_commit_was_uncertain_ends_its_part_once(site: Engine, attempt: Attempt) -> None:
    writer = end_part(site, attempt, 0, [b"1", b"2", b"3"], chance=3)
    writer._insert([], writer.written, again=True)
    writer.finish()
    assert grown(site, attempt)[0] == [(1, b"1"), (2, b"2"), (3, b"3")]


@pytest.mark.parametrize("row", range(7))
def test_reading_goes_on_after_any_row(site: Engine, attempt: Attempt, row: int) -> None:
    for number, part in enumerate([[b"1", b"2", b"3"], [], [b"4", b"5"], [b"6"]]):
        end_part(site, attempt, number, part, chance=number + 1)
    place = place_after(site, attempt, row)
    assert place is not None
    rows, _ = grown(site, attempt, place)
    assert [number for number, _ in rows if number > row] == list(range(row + 1, 7))


def test_no_place_is_after_rows_that_the_build_does_not_have(site: Engine, attempt: Attempt) -> None:
    assert place_after(site, attempt, 0) == RowPlace()
    assert place_after(site, attempt, 1) is None
    write_part(site, attempt, 0, [b"1"])
    assert place_after(site, attempt, 2) is None


def test_only_the_published_tries_of_parts_are_published(site: Engine, attempt: Attempt) -> None:
    sent = end_part(site, attempt, 0, [b"1"], chance=1)
    other = end_part(site, attempt, 0, [b"1"], chance=2)
    second = end_part(site, attempt, 1, [b"2"], chance=3)
    publish(site, attempt, other, second)
    assert is_published(site, attempt, {0: other.written.attempt})
    assert is_published(site, attempt, {1: second.written.attempt})
    assert not is_published(site, attempt, {0: sent.written.attempt, 1: second.written.attempt})


def test_a_part_that_ends_during_a_read_loses_no_row(
    site: Engine, attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = write_part(site, attempt, 0, [b"1"], chance=0)
    end_part(site, attempt, 1, [b"3"], chance=1)
    read = growing._read

    def ends_after(*arguments: object) -> object:
        found = read(*arguments)  # type: ignore[arg-type]
        if not found and not ended:
            ended.append(True)
            writer.add(b"2", None)
            writer.finish()
        return found

    ended: list[bool] = []
    rows, place = grown(site, attempt)
    monkeypatch.setattr(growing, "_read", ends_after)
    more, place = grown(site, attempt, place)
    assert ended
    assert rows + more + grown(site, attempt, place)[0] == [(1, b"1"), (2, b"2"), (3, b"3")]
