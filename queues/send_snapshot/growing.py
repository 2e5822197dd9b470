"""Read the rows of a snapshot that is still being built, in the order of the published ones.

A writer that adds rows one after another has part 0. A job has many parts at a time, and the rows of one count once it
has ended. Another try of the same part may be published in the end, so `is_published` compares.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import accumulate

from sqlalchemy import Connection, func, select

from queues.block_limits import MAX_ROWS
from queues.database.tables.snapshots import snapshot_blocks, snapshot_parts
from queues.send_snapshot.blocks import MAX_BLOCKS, MAX_PARTS, StoredBlock, Stretch, following, parse
from queues.send_snapshot.states import END_ORD, build_number, part_attempts_from, stored_under


@dataclass(frozen=True, slots=True)
class RowPlace:
    """A place between two rows: `rows` come before it, of which `ord` are of its part; `attempt` is 0 while unknown."""

    part: int = 0
    attempt: int = 0
    ord: int = 0
    rows: int = 0

    def next_part(self) -> "RowPlace":
        """Return the place before the next part."""
        return RowPlace(self.part + 1, rows=self.rows)


def read_growing(
    connection: Connection, sync_id: str, build: str, place: RowPlace, *, limit_bytes: int
) -> tuple[list[StoredBlock], RowPlace]:
    """Return consecutive blocks after *place*, and the place after them; no block if the next rows are not there yet.

    The blocks have the limits of `read_blocks`, and come from one part. Raises the errors of `read_blocks` except for
    the end of the build: the caller asks for the state first.
    """
    stored = stored_under(build)
    for _ in range(MAX_PARTS):
        writer = place.attempt or _writer_of(connection, build, place.part)
        if not writer:
            break
        place = replace(place, attempt=writer)
        blocks = _read(connection, sync_id, stored, place, limit_bytes)
        has_ended = not blocks and _has_ended(connection, stored, place.part, writer)
        if has_ended:
            # The part may have got its last rows after the first read.
            blocks = _read(connection, sync_id, stored, place, limit_bytes)
        if blocks:
            last = blocks[-1].last_row
            return blocks, replace(place, ord=place.ord + last - place.rows, rows=last)
        if not has_ended:
            break
        place = place.next_part()
    return [], place


def place_after(connection: Connection, build: str, row: int) -> RowPlace | None:
    """Return the place after the first *row* rows of a build; None if the build has fewer, or is divided otherwise."""
    place = RowPlace()
    while True:
        writer = _writer_of(connection, build, place.part)
        if not writer:
            return place if place.rows == row else None
        last = _last_ord(connection, stored_under(build), place.part, writer)
        if row <= place.rows + last:
            return replace(place, attempt=writer, ord=row - place.rows, rows=row)
        if not _has_ended(connection, stored_under(build), place.part, writer):
            return None
        place = RowPlace(place.part + 1, rows=place.rows + last)


def is_published(connection: Connection, build: str, sent: Mapping[int, int]) -> bool:
    """Return whether a complete snapshot has the tries of its parts that were *sent*: the attempt of each part."""
    parts = snapshot_parts.c
    own = parts.sync_id == stored_under(build), parts.part.between(min(sent), max(sent))
    published = connection.execute(select(parts.part, parts.attempt).where(*own))
    return {row.part: row.attempt for row in published} == dict(sent)


def _read(connection: Connection, sync_id: str, stored: str, place: RowPlace, limit_bytes: int) -> list[StoredBlock]:
    stretch = Stretch(place.part, place.attempt, place.ord, place.rows - place.ord, place.ord)
    found = following(connection, stored, stretch, MAX_BLOCKS, limit_bytes, even_too_large=True)
    blocks = [parse(sync_id, stretch, each) for each in found]
    totals = accumulate(each.block.rows for each in blocks)
    return [each for each, total in zip(blocks, totals, strict=True) if total <= MAX_ROWS]


def _writer_of(connection: Connection, build: str, part: int) -> int:
    """Return the attempt whose rows of *part* count: one that has ended, or that of an ordered writer; 0 for none."""
    stored, number = stored_under(build), build_number(build)
    ordered, end = part_attempts_from(number), part_attempts_from(number + 1)
    blocks = snapshot_blocks.c
    own = select(func.min(blocks.attempt)).where(blocks.sync_id == stored, blocks.part == part, blocks.attempt < end)
    attempt = connection.execute(own.where(blocks.attempt >= ordered)).scalar()
    while attempt is not None:
        if (part == 0 and attempt == ordered) or _has_ended(connection, stored, part, attempt):
            return int(attempt)
        attempt = connection.execute(own.where(blocks.attempt > attempt)).scalar()
    return 0


def _has_ended(connection: Connection, stored: str, part: int, attempt: int) -> bool:
    blocks = snapshot_blocks.c
    end = blocks.sync_id == stored, blocks.part == part, blocks.attempt == attempt, blocks.last_ord == END_ORD
    return connection.execute(select(blocks.part).where(*end)).first() is not None


def _last_ord(connection: Connection, stored: str, part: int, attempt: int) -> int:
    blocks = snapshot_blocks.c
    own = blocks.sync_id == stored, blocks.part == part, blocks.attempt == attempt
    return int(connection.execute(select(func.max(blocks.last_ord)).where(*own)).scalar() or 0)
