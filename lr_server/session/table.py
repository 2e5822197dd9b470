"""The sessions' rows in the database, which status, `wait_replicated` and trim read."""

from collections.abc import Collection, Iterable

from sqlalchemy import Engine

from lr_server.protocol.states import Idle, SessionStanding, describe
from queues.database import leases
from queues.database.leases import Lease
from queues.database.transactions import reading, writing
from queues.names import ClientName, SiteId
from queues.send_log import released, sessions
from queues.send_log.port import SessionKey
from queues.send_log.sessions import SessionChange
from queues.states import SessionState


def ensure(engine: Engine, owed: SessionKey) -> None:
    """Insert the session's row before the session begins, so that trim keeps its entries.

    A claim that an operator has released is back.
    """
    with reading(engine) as connection:
        if sessions.find_session(connection, owed) is not None and owed not in released.released(connection):
            return
    with writing(engine) as connection:
        if sessions.find_session(connection, owed) is None:
            sessions.add_session(connection, owed, *describe(Idle()))
        else:
            released.claim_again(connection, owed)


def touch(engine: Engine, owed: SessionKey) -> None:
    """Commit a small durable change."""
    with writing(engine) as connection:
        sessions.touch_session(connection, owed)


def save(engine: Engine, lease: Lease, standings: Iterable[tuple[SessionKey, SessionStanding]]) -> None:
    """Save the sessions in one transaction; raise `OwnershipLostError` when another server owns the site."""
    with writing(engine) as connection:
        leases.check(connection, lease)
        sessions.save_sessions(connection, [_change(owed, standing) for owed, standing in standings])


def deactivate(engine: Engine, lease: Lease, peers: Collection[SiteId], clients: Collection[ClientName]) -> None:
    """Mark the sessions inactive whose destination is not in *peers*, or whose client is not in *clients*.

    Empty *clients* mean every client. Raises the errors of `save`.
    """
    with writing(engine) as connection:
        leases.check(connection, lease)
        for owed in sessions.active_keys(connection):
            if owed.destination not in peers:
                reason = "the site is not among the peers of the server"
            elif clients and owed.client not in clients:
                reason = "the client is not among the clients of the server"
            else:
                continue
            sessions.set_state(connection, owed, SessionState.INACTIVE, reason)


def _change(owed: SessionKey, standing: SessionStanding) -> SessionChange:
    rows, words = standing.transferred_rows, standing.words
    reason = f"{words.detail} ({rows:,} rows sent)" if rows else words.detail
    return SessionChange(owed, words.name, reason, rows, standing.acked)
