"""What is stored of snapshots, published or not, by look-ups in the index: the table is huge, its parts are few."""

from collections.abc import Iterator

from sqlalchemy import Connection, func, select, tuple_

from queues.snapshots.states import Attempt, part_attempts_from
from queues.tables import snapshot_entries


def stored_ids(connection: Connection) -> Iterator[str]:
    """Yield every id that rows are stored under."""
    following = select(snapshot_entries.c.sync_id).order_by(snapshot_entries.c.sync_id).limit(1)
    sync_id = connection.execute(following).scalar()
    while sync_id is not None:
        yield sync_id
        sync_id = connection.execute(following.where(snapshot_entries.c.sync_id > sync_id)).scalar()


def written_parts(connection: Connection, sync_id: str) -> Iterator[tuple[int, int]]:
    """Yield every (part, attempt) that has rows."""
    entries = snapshot_entries.c
    place = tuple_(entries.part, entries.attempt)
    following = (
        select(entries.part, entries.attempt)
        .where(entries.sync_id == sync_id)
        .order_by(entries.part, entries.attempt)
        .limit(1)
    )
    found = connection.execute(following).first()
    while found is not None:
        pair = (found.part, found.attempt)
        yield pair
        found = connection.execute(following.where(place > pair)).first()


def rows_written(connection: Connection, attempt: Attempt) -> int:
    """Count what an attempt has written so far; of a part that is written more than once, the longest."""
    longest: dict[int, int] = {}
    entries = snapshot_entries.c
    for part, number in written_parts(connection, attempt.sync_id):
        if number < part_attempts_from(attempt.number):
            continue
        place = entries.sync_id == attempt.sync_id, entries.part == part, entries.attempt == number
        last = connection.execute(select(func.max(entries.ord)).where(*place)).scalar() or 0
        longest[part] = max(last, longest.get(part, 0))
    return sum(longest.values())
