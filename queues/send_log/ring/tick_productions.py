"""The requests of producers in a tick of a ring, and the rule by which they fit its rows. Pure."""

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from queues.positions import Position, PositionToken
from queues.send_log.port import LogRow
from queues.send_log.producers import MAX_SEQUENCE, Last, ProducerKey


class TickProduction(NamedTuple):
    """A request of a producer, which is one transaction of a tick.

    `process` and `first` are those of `Last`. `last_row` counts the rows of the tick up to the last one of the request.
    """

    key: ProducerKey
    sequence: int
    process: int
    first: int
    last_row: int


class ProducerStanding(NamedTuple):
    """The last stored request of a producer, and the place of its last entry."""

    last: Last
    position: Position


def token_of(site: str, client: str, position: Position) -> str:
    """Return the token of a request that ends at *position*.

    In the log of a ring the id of an entry is the number of its place. So each member gives the same token.
    """
    return str(PositionToken(site, client, position.branch, position.seq))


def fit(productions: Sequence[TickProduction], rows: Sequence[LogRow]) -> bool:
    """Return whether each of *productions* is a whole transaction of its client, in the order of *rows*."""
    if not productions:
        return True
    clients: dict[int, set[str]] = {}
    for _, group in groupby(enumerate(rows, 1), key=lambda place: place[1].transaction):
        transaction = list(group)
        clients[transaction[-1][0]] = {row.client for _, row in transaction}
    lasts: dict[ProducerKey, TickProduction] = {}
    end = 0
    for each in productions:
        if each.last_row <= end or clients.get(each.last_row) != {each.key.client} or not each.key.producer:
            return False
        if not _is_numbered(each) or not _follows(lasts.get(each.key), each):
            return False
        end = each.last_row
        lasts[each.key] = each
    return True


def _is_numbered(each: TickProduction) -> bool:
    lowest_first = 1 if each.process else 0
    has_process = 0 <= each.process <= MAX_SEQUENCE
    return has_process and 1 <= each.sequence <= MAX_SEQUENCE and lowest_first <= each.first <= each.sequence


def _follows(before: TickProduction | None, each: TickProduction) -> bool:
    if before is None:
        return True
    first = before.first if each.process == before.process else each.sequence
    return (each.sequence, each.first) == (before.sequence + 1, first)
