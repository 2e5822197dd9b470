"""List the stored parts of snapshots, published or not, by index look-ups: the table is huge but has few parts."""

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from sqlalchemy import Connection, func, select, tuple_

from queues.database.tables.snapshots import snapshot_blocks
from queues.send_snapshot.states import Attempt, part_attempts_from


def stored_ids(connection: Connection) -> Iterator[str]:
    """Yield every id that rows are stored under."""
    following = select(snapshot_blocks.c.sync_id).order_by(snapshot_blocks.c.sync_id).limit(1)
    sync_id = connection.execute(following).scalar()
    while sync_id is not None:
        yield sync_id
        sync_id = connection.execute(following.where(snapshot_blocks.c.sync_id > sync_id)).scalar()


def written_parts(connection: Connection, sync_id: str) -> Iterator[tuple[int, int]]:
    """Yield every (part, attempt) of *sync_id* that has rows."""
    blocks = snapshot_blocks.c
    place = tuple_(blocks.part, blocks.attempt)
    following = (
        select(blocks.part, blocks.attempt)
        .where(blocks.sync_id == sync_id)
        .order_by(blocks.part, blocks.attempt)
        .limit(1)
    )
    found = connection.execute(following).first()
    while found is not None:
        pair = (found.part, found.attempt)
        yield pair
        found = connection.execute(following.where(place > pair)).first()


class PartRows(NamedTuple):
    """The rows that one part of a snapshot has so far."""

    part: int
    rows: int


def parts_of(connection: Connection, stored_under: str, limit: int) -> list[PartRows]:
    """Return the parts of a snapshot with their rows, after looking at *limit* writers of parts.

    Of a part with several writers, only the longest counts.
    """
    blocks = snapshot_blocks.c
    longest: dict[int, int] = {}
    for part, number in islice(written_parts(connection, stored_under), limit):
        place = blocks.sync_id == stored_under, blocks.part == part, blocks.attempt == number
        rows = connection.execute(select(func.max(blocks.last_ord)).where(*place)).scalar() or 0
        longest[part] = max(rows, longest.get(part, 0))
    return [PartRows(part, rows) for part, rows in sorted(longest.items())]


def rows_written(connection: Connection, attempt: Attempt) -> int:
    """Count the rows that an attempt has written so far; of a part with several writers, only the longest counts."""
    longest: dict[int, int] = {}
    blocks = snapshot_blocks.c
    for part, number in written_parts(connection, attempt.sync_id):
        if number < part_attempts_from(attempt.number):
            continue
        place = blocks.sync_id == attempt.sync_id, blocks.part == part, blocks.attempt == number
        last = connection.execute(select(func.max(blocks.last_ord)).where(*place)).scalar() or 0
        longest[part] = max(last, longest.get(part, 0))
    return sum(longest.values())
