"""Waiting, at the source, until destinations have a transaction durably."""

import threading
from collections.abc import Sequence

from sqlalchemy import Connection, Engine, func, select

from queues.clock import SYSTEM_CLOCK
from queues.errors import WaitTimeoutError
from queues.names import ClientName, SiteId
from queues.positions import Mark, PositionToken
from queues.tables import sessions, ticks
from queues.transactions import reading

_PAUSE = 0.02


def wait_replicated(
    engine: Engine, client: ClientName, token: PositionToken | str, destinations: Sequence[SiteId], timeout: float
) -> None:
    """See `RoutingQueueSenderClient.wait_replicated`."""
    wanted = PositionToken.parse(token) if isinstance(token, str) else token
    deadline = SYSTEM_CLOCK.monotonic() + timeout
    never = threading.Event()
    while True:
        with reading(engine, snapshot=True) as connection:
            missing = _missing(connection, client, wanted, destinations)
        if not missing:
            return
        if SYSTEM_CLOCK.monotonic() >= deadline:
            raise WaitTimeoutError(f"after {timeout} s these sites do not have {wanted} yet: {', '.join(missing)}")
        SYSTEM_CLOCK.wait(never, _PAUSE)


def _missing(
    connection: Connection, client: ClientName, token: PositionToken, destinations: Sequence[SiteId]
) -> list[SiteId]:
    end = _end_of(connection, token)
    chosen = select(sessions).where(sessions.c.client == client, sessions.c.destination.in_(destinations))
    have = set()
    for row in connection.execute(chosen):
        in_snapshot = bool(row.cut) and Mark.parse(row.cut).surely_covers(token.transaction)
        in_log = end is not None and row.acked_seq >= end
        if row.branch == token.branch and (in_log or in_snapshot):
            have.add(row.destination)
    return [name for name in destinations if name not in have]


def _end_of(connection: Connection, token: PositionToken) -> int | None:
    """Return the end of the first kept tick that surely covers the token; None when none does yet.

    Marks only grow, so the kept ticks can be searched by halving.
    """
    low, newest = connection.execute(select(func.min(ticks.c.number), func.max(ticks.c.number))).one()
    if newest is None:
        return None
    high = newest + 1
    end: int | None = None
    while low < high:
        middle = (low + high) // 2
        row = connection.execute(select(ticks).where(ticks.c.number >= middle).order_by(ticks.c.number).limit(1)).one()
        if Mark.parse(row.mark).surely_covers(token.transaction):
            end, high = row.end_seq, middle
        else:
            low = row.number + 1
    return end
