"""The beginning of a trimmed log, from which a newcomer goes on. The functions need the caller's transaction.

A base has the last trimmed tick, the branches of the generations, and the destinations of trimmed entries. The newest
older request of each producer stands beside the base.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from sqlalchemy import Connection, func, insert, or_, select, update

from queues.database.left_out import require_none
from queues.database.tables.destinations import strangers
from queues.database.tables.log import log_head
from queues.database.tables.ring import ring_productions
from queues.database.tables.sessions import sessions
from queues.database.tables.ticks import ticks
from queues.errors import CorruptFrameError, StoreUnavailableError
from queues.names import ClientName, SiteId
from queues.positions import Position, Visibility
from queues.send_log.history import branch_starts
from queues.send_log.port import SessionKey
from queues.send_log.producers import ProducerKey
from queues.send_log.ring.member_rows import generations
from queues.send_log.ring.member_trim import note_losses, trimmed_tick
from queues.send_log.ring.ring_log import begin_branch, remove_all, store_tick
from queues.send_log.ring.tick_contents import LogEnd
from queues.send_log.strangers import EVERY, MOST_RECORDED

#: The most requests of one answer of `requests_between`.
MOST_REQUESTS: Final = 2_000
_ALL: Final = SessionKey(ClientName(EVERY), SiteId(EVERY))


class BaseBranch(NamedTuple):
    """A generation with the number of its first tick, and the branch that began there after entry `start_seq`."""

    generation: int
    seal: int
    branch: str
    start_seq: int


class LogBase(NamedTuple):
    """The beginning of a trimmed log: `end` is the last trimmed tick, without its entries.

    `branches` has the generations up to there, oldest first. Entries of `trimmed_for` are trimmed.
    """

    end: LogEnd
    branches: Sequence[BaseBranch]
    trimmed_for: Sequence[SessionKey]


class StoredRequest(NamedTuple):
    """A request of a producer, whose last entry is number `place.seq`; see `Last`."""

    key: ProducerKey
    sequence: int
    process: int
    first: int
    place: Position


def read_base(connection: Connection) -> LogBase:
    """Return the beginning of this trimmed log; raise `StoreUnavailableError` for a log that is whole."""
    tick = trimmed_tick(connection)
    if tick is None:
        raise StoreUnavailableError("the log is whole: ask for its ticks")
    generation = connection.execute(select(ticks.c.generation).where(ticks.c.number == tick.number)).scalar_one()
    told = [each for each in generations(connection) if each[0] <= generation]
    # The first branch belongs to no generation.
    names = branch_starts(connection)[1 : len(told) + 1]
    branches = [BaseBranch(*begun, *named) for begun, named in zip(told, names, strict=True)]
    return LogBase(LogEnd(generation, tick), branches, _trimmed_for(connection))


def _trimmed_for(connection: Connection) -> list[SessionKey]:
    head = connection.execute(select(log_head.c.trimmed_seq, log_head.c.strangers_seq)).one()
    had = select(sessions.c.client, sessions.c.destination).where(
        or_(sessions.c.acked_seq > 0, sessions.c.lost_seq > 0)
    )
    rows = (
        *connection.execute(select(strangers.c.client, strangers.c.destination)),
        *connection.execute(had.limit(MOST_RECORDED + 1)),
    )
    found = {SessionKey(ClientName(client), SiteId(destination)) for client, destination in rows}
    is_complete = head.strangers_seq == head.trimmed_seq and len(found) <= MOST_RECORDED
    return sorted(found) if is_complete else [_ALL]


def begin_from(connection: Connection, base: LogBase) -> None:
    """Replace the whole log by *base*; raise `CorruptFrameError` if the base contradicts itself."""
    tick, generation = base.end.tick, base.end.generation
    _check(base)
    remove_all(connection)
    for each in base.branches:
        begin_branch(connection, each.generation, each.seal, each.branch, each.start_seq)
    store_tick(connection, generation, tick)
    note_losses(connection, dict.fromkeys(base.trimmed_for, tick.end_seq), tick.end_seq)
    # Nothing here tells which entries the sessions of an earlier time have.
    connection.execute(update(sessions).values(lost_seq=tick.end_seq))
    require_none(connection, sessions, sessions.c.lost_seq != tick.end_seq)


def _check(base: LogBase) -> None:
    tick, last = base.end.tick, base.branches[-1] if base.branches else None
    fits = (
        last is not None
        and (last.generation, last.branch) == (base.end.generation, tick.branch)
        and last.seal <= tick.number
        and tick.start_seq < tick.end_seq == Visibility.parse(tick.mark).high
    )
    if not fits:
        raise CorruptFrameError(f"the beginning of a log at tick {tick.number} contradicts itself")


def requests_between(connection: Connection, after: int, upto: int) -> list[StoredRequest]:
    """Return the first requests whose last entry has a number above *after* and up to *upto*, in that order."""
    chosen = select(ring_productions).where(ring_productions.c.entry > after, ring_productions.c.entry <= upto)
    rows = connection.execute(chosen.order_by(ring_productions.c.entry).limit(MOST_REQUESTS)).all()
    return [
        StoredRequest(
            ProducerKey(ClientName(row.client), row.producer),
            row.sequence,
            row.process,
            row.first_sequence,
            Position(row.branch, row.entry),
        )
        for row in rows
    ]


def insert_requests(connection: Connection, requests: Sequence[StoredRequest]) -> None:
    """Store *requests* beside a base; raise `CorruptFrameError` if they do not follow the ones before."""
    entries = [each.place.seq for each in requests]
    last = connection.execute(select(func.max(ring_productions.c.entry))).scalar() or 0
    end = connection.execute(select(log_head.c.trimmed_seq)).scalar_one()
    if not all(before < entry <= end for before, entry in pairwise([last, *entries])):
        raise CorruptFrameError("the requests beside the beginning of a log are out of order")
    values = [
        {
            "entry": each.place.seq,
            "client": each.key.client,
            "producer": each.key.producer,
            "sequence": each.sequence,
            "process": each.process,
            "first_sequence": each.first,
            "branch": each.place.branch,
        }
        for each in requests
    ]
    if values:
        connection.execute(insert(ring_productions), values)
