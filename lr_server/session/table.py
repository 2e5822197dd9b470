"""The sessions' rows in the database, which status, `wait_replicated` and trim read."""

from collections.abc import Iterable

from sqlalchemy import Engine

from lr_server.protocol.states import Idle, SessionStanding, describe
from queues.database import leases
from queues.database.leases import Lease
from queues.database.transactions import reading, writing
from queues.send_log import sessions
from queues.send_log.known_sites import KnownSites, read_known, record_known
from queues.send_log.port import SessionKey
from queues.send_log.sessions import SessionChange
from queues.states import SessionState


def ensure(engine: Engine, owed: SessionKey) -> None:
    """Insert the session's row before the session begins, so that trim keeps its entries."""
    with reading(engine) as connection:
        if sessions.find_session(connection, owed) is not None:
            return
    with writing(engine) as connection:
        if sessions.find_session(connection, owed) is None:
            sessions.add_session(connection, owed, *describe(Idle()))


def touch(engine: Engine, owed: SessionKey) -> None:
    """Commit a small durable change."""
    with writing(engine) as connection:
        sessions.touch_session(connection, owed)


def save(engine: Engine, lease: Lease, standings: Iterable[tuple[SessionKey, SessionStanding]]) -> None:
    """Save the sessions in one transaction; raise `OwnershipLostError` when another server owns the site."""
    with writing(engine) as connection:
        leases.check(connection, lease)
        sessions.save_sessions(connection, [_change(owed, standing) for owed, standing in standings])


def follow(engine: Engine, lease: Lease, known: KnownSites) -> None:
    """Record the *known* sites, and mark the sessions inactive whose destination or client is not among them.

    Raises the errors of `save`.
    """
    with writing(engine) as connection:
        leases.check(connection, lease)
        before = read_known(connection)
        record_known(connection, known)
        removed = before.peers - known.peers if before else frozenset()
        # The time of a removed site begins now, also for a session that its client has ended before.
        again = {owed for owed in sessions.every_key(connection) if owed.destination in removed}
        for owed in sorted(again.union(sessions.active_keys(connection))):
            if owed.destination not in known.peers:
                reason = "the site is not among the peers of the server"
            elif not known.has_client(owed.client):
                reason = "the client is not among the clients of the server"
            else:
                continue
            sessions.set_state(connection, owed, SessionState.INACTIVE, reason)


def _change(owed: SessionKey, standing: SessionStanding) -> SessionChange:
    rows, words = standing.transferred_rows, standing.words
    reason = f"{words.detail} ({rows:,} rows sent)" if rows else words.detail
    return SessionChange(owed, words.name, reason, rows, standing.acked)
