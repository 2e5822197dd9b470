"""The ticks of a token, stored alike at each member. The functions need the caller's transaction.

The tables are those of an ordinary send log. So a source reads the file of each member like its own.
"""

from collections.abc import Sequence

from sqlalchemy import Connection, delete, insert, select, update

from queues.clock import now_us
from queues.database import dialects
from queues.database.tables.destinations import tag_sets
from queues.database.tables.log import log_head, sqlite_segments
from queues.database.tables.ring import ring_generations
from queues.database.tables.site import branches, site
from queues.database.tables.ticks import ticks
from queues.errors import CorruptFrameError, DataLossError, TrimmedError
from queues.positions import Tick, Visibility
from queues.send_log.destination_sets import SetDictionary, sightings
from queues.send_log.port import LogRow
from queues.send_log.reads import tick_of, trimmed_seq
from queues.send_log.ring.productions import insert_productions, read_productions, remove_productions
from queues.send_log.ring.tick_contents import FIRST_BRANCH, LogEnd, TickContent, check_follows, empty_end
from queues.send_log.sqlite.reads import all_rows
from queues.send_log.ticks import partition_of

_ROW_COLUMNS = (
    "transaction_id", "id", "client", "tag_set", "item_key", "created_us", "payload", "headers", "partition_key",
)  # fmt: skip


def log_end(connection: Connection) -> LogEnd:
    """Return the end of the log."""
    row = connection.execute(select(ticks).order_by(ticks.c.number.desc()).limit(1)).first()
    if row is not None:
        return LogEnd(row.generation, tick_of(row))
    first = select(branches.c.branch).where(branches.c.number == FIRST_BRANCH)
    return empty_end(connection.execute(first).scalar_one())


def replace_ticks(
    connection: Connection, dictionary: SetDictionary, after: int, contents: Sequence[TickContent]
) -> None:
    """Remove every tick after number *after* with its entries and requests, and store *contents* there.

    Raises `DataLossError` if tick *after* is lost or trimmed, or if *contents* belong to another history. Raises
    `CorruptFrameError` if they contradict themselves or the log. The caller rolls back then.
    """
    end = log_end(connection)
    if after > end.tick.number:
        raise CorruptFrameError(f"tick {after + 1} does not follow the end of the log at {end.tick.number}")
    if after < end.tick.number:
        end = _remove_after(connection, after)
    for content in contents:
        check_follows(end, content)
        _insert(connection, dictionary, end.generation, content)
        end = LogEnd(content.generation, content.tick)


def read_ticks(connection: Connection, after: int, most: int, most_bytes: int) -> list[TickContent]:
    """Return the ticks after number *after*: up to *most* and up to *most_bytes* of entries, but at least one.

    Raises `TrimmedError` if the ticks are trimmed.
    """
    # The tick before comes first; the first tick of all has none.
    chosen = select(ticks).where(ticks.c.number >= after).order_by(ticks.c.number).limit(most + bool(after))
    found = [LogEnd(row.generation, tick_of(row)) for row in connection.execute(chosen)]
    if after == 0:
        found.insert(0, empty_end(""))
    trimmed = trimmed_seq(connection)
    if not found or found[0].tick.number != after or found[0].tick.end_seq < trimmed:
        raise TrimmedError(requested=after, oldest=trimmed)
    limit = found[0].tick.bytes_total + most_bytes
    wanted = [each for place, each in enumerate(found[1:]) if place == 0 or each.tick.bytes_total <= limit]
    if not wanted:
        return []
    productions = read_productions(connection, [each.tick for each in wanted])
    wanted = wanted[: len(productions)]
    rows = all_rows(connection, [each.tick for each in wanted])
    texts = _texts(connection, {row.tag_set for group in rows for row in group})
    uids = [each.tick.uid for each in found]
    return [
        TickContent(
            generation, tick, uid, {row.tag_set: texts[row.tag_set] for row in group}, tuple(group), tuple(asked)
        )
        for (generation, tick), uid, group, asked in zip(wanted, uids, rows, productions, strict=False)
    ]


def _texts(connection: Connection, numbers: set[int]) -> dict[int, str]:
    ordered = sorted(numbers)
    found: dict[int, str] = {}
    for begin in range(0, len(ordered), 500):
        chosen = select(tag_sets.c.number, tag_sets.c.destinations)
        rows = connection.execute(chosen.where(tag_sets.c.number.in_(ordered[begin : begin + 500])))
        found |= {row.number: row.destinations for row in rows}
    return found


def remove_all(connection: Connection) -> None:
    """Remove all ticks, also those of a trimmed log, so that the log is new and whole."""
    connection.execute(update(log_head).values(trimmed_seq=0, strangers_seq=0))
    _remove_after(connection, 0)


def _remove_after(connection: Connection, after: int) -> LogEnd:
    """Remove the ticks after number *after*. The destination sets stay, because other ticks may have the same."""
    generation, high = 0, 0
    if after:
        row = connection.execute(select(ticks).where(ticks.c.number == after)).first()
        if row is None:
            raise DataLossError(f"tick {after} of the log is lost: empty this store, so that it begins as a newcomer")
        generation, high = row.generation, Visibility.parse(row.mark).high
    if high < trimmed_seq(connection):
        raise DataLossError(f"tick {after + 1} of the log is trimmed here, so no other tick can come in its place")
    for table in sqlite_segments:
        connection.execute(delete(table).where(table.c.id > high))
    connection.execute(delete(ticks).where(ticks.c.number > after))
    remove_productions(connection, high)
    connection.execute(delete(ring_generations).where(ring_generations.c.generation > generation))
    connection.execute(delete(branches).where(branches.c.number > FIRST_BRANCH + generation))
    connection.execute(update(log_head).values(last_id=high))
    end = log_end(connection)
    connection.execute(update(site).values(branch=end.tick.branch))
    return end


def _insert(connection: Connection, dictionary: SetDictionary, last_generation: int, content: TickContent) -> None:
    tick = content.tick
    if content.generation > last_generation:
        begin_branch(connection, content.generation, tick.number, tick.branch, tick.start_seq)
    seen = sightings((row.client, row.tag_set, content.sets[row.tag_set]) for row in content.rows)
    dictionary.record(connection, seen, tick.end_seq)
    _insert_rows(connection, content.rows)
    store_tick(connection, content.generation, tick)
    insert_productions(connection, tick, content.productions)


def store_tick(connection: Connection, generation: int, tick: Tick) -> None:
    """Store the row of the newest *tick*, without its entries."""
    columns = {column.name for column in ticks.c} - {"slot", "generation"}
    values = {name: getattr(tick, name) for name in columns}
    connection.execute(insert(ticks).values(slot=partition_of(tick.number), generation=generation, **values))
    connection.execute(update(log_head).values(last_id=Visibility.parse(tick.mark).high))


def begin_branch(connection: Connection, generation: int, seal: int, branch: str, start_seq: int) -> None:
    """Begin a generation with tick number *seal*, and its branch, as an ordinary log does after a promotion."""
    connection.execute(insert(ring_generations).values(generation=generation, seal=seal))
    incarnation = dialects.of(connection).incarnation(connection)
    connection.execute(
        insert(branches).values(
            number=FIRST_BRANCH + generation,
            branch=branch,
            start_seq=start_seq,
            incarnation=incarnation,
            created_us=now_us(),
            inherited="",
        )
    )
    connection.execute(update(site).values(branch=branch))


def _insert_rows(connection: Connection, rows: Sequence[LogRow]) -> None:
    # The set of a row is in the dictionary of the same transaction, so the row needs only the number.
    slot = connection.execute(select(log_head.c.slot)).scalar_one()
    values = [
        (row.transaction, row.id, row.client, row.tag_set, row.item_key, row.committed_us, row.payload, row.headers,
         row.partition_key)
        for row in rows
    ]  # fmt: skip
    dialects.of(connection).bulk_insert(connection, sqlite_segments[slot], _ROW_COLUMNS, values)
