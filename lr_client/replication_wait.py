"""Waiting, at the source, until destinations have a transaction durably."""

import threading
from collections.abc import Sequence

from sqlalchemy import Connection, Engine, select

from queues.clock import SYSTEM_CLOCK
from queues.errors import WaitTimeoutError
from queues.names import ClientName, SiteId
from queues.positions import Mark, PositionToken
from queues.tables import branches, sessions, ticks
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
    later = _from_branch(connection, token.branch)
    chosen = select(sessions).where(sessions.c.client == client, sessions.c.destination.in_(destinations))
    have = set()
    for row in connection.execute(chosen):
        # A cut names transactions: after a promotion others may have the same numbers.
        is_ours = row.branch == token.branch
        in_snapshot = is_ours and bool(row.cut) and Mark.parse(row.cut).surely_covers(token.transaction)
        in_log = end is not None and row.branch in later and row.acked_seq >= end
        if in_log or in_snapshot:
            have.add(row.destination)
    return [name for name in destinations if name not in have]


def _from_branch(connection: Connection, branch: str) -> set[str]:
    """Return the branches whose history holds all ticks that are kept of *branch*."""
    first = select(branches.c.number).where(branches.c.branch == branch).scalar_subquery()
    return set(connection.execute(select(branches.c.branch).where(branches.c.number >= first)).scalars())


def _end_of(connection: Connection, token: PositionToken) -> int | None:
    """Return the end of the first kept tick of its branch that surely covers the token; None when none does yet.

    Marks only grow, so the kept ticks can be searched by halving.
    """
    of_branch = ticks.c.branch == token.branch
    kept = select(ticks).where(of_branch).order_by(ticks.c.number).limit(1)
    newest = connection.execute(kept.order_by(None).order_by(ticks.c.number.desc())).first()
    if newest is None:
        return None
    low, high = connection.execute(kept).one().number, newest.number + 1
    end: int | None = None
    while low < high:
        middle = (low + high) // 2
        row = connection.execute(kept.where(ticks.c.number >= middle)).one()
        if Mark.parse(row.mark).surely_covers(token.transaction):
            end, high = row.end_seq, middle
        else:
            low = row.number + 1
    return end
