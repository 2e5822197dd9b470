"""The sessions' rows in the database, which status, `wait_replicated` and trim read."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from sqlalchemy import Engine

from lr_server.protocol.states import Idle, SessionStanding, StatusText, describe
from queues.database import leases
from queues.database.leases import Lease
from queues.database.servers import check_ranges
from queues.database.transactions import reading, writing
from queues.errors import OwnershipLostError, StoreUnavailableError
from queues.logs import logger
from queues.send_log import links, sessions, strangers
from queues.send_log.known_sites import KnownSites, read_known, record_known
from queues.send_log.port import SessionKey
from queues.send_log.sessions import SessionChange
from queues.states import SessionState
from queues.words import describe as described

log = logger("lrq.session")

#: The reason of the sessions with a removed site.
NO_PEER: Final = "the site is not among the peers of the server"


def ensure(engine: Engine, owed: SessionKey) -> int:
    """Insert the session's row before the session begins, so that trim keeps its entries.

    The wish of a released link is gone. Return the number of replaced entries counted until now.
    """
    with reading(engine) as connection:
        found = sessions.find_session(connection, owed)
        was_forgotten = owed in links.unclaimed(connection)
    if found is not None and not was_forgotten:
        return found.replaced_total
    with writing(engine) as connection:
        if links.begin_by_itself(connection, owed):
            strangers.record_stranger(connection, owed)
        if sessions.find_session(connection, owed) is None:
            # The sink may have entries of a forgotten session, and must not go on after them across a gap.
            sessions.add_session(connection, owed, *describe(Idle()), lost_seq=strangers.lost_by(connection, owed))
    return 0 if found is None else found.replaced_total


def touch(engine: Engine, owed: SessionKey) -> None:
    """Commit a small durable change."""
    with writing(engine) as connection:
        sessions.touch_session(connection, owed)


class Standing(NamedTuple):
    """The facts to save of one session, under the lease of its range."""

    owed: SessionKey
    lease: Lease
    facts: SessionStanding


def save(engine: Engine, standings: Iterable[Standing]) -> list[OwnershipLostError]:
    """Save the sessions in one transaction, or one by one if the database refuses the values of one of them.

    A refused session is stored as failed, so that it never stops the others. Sessions of a range that another server
    leads by now are not saved; return one error for each such range. Raises `StoreUnavailableError`.
    """
    found = list(standings)
    lost: list[OwnershipLostError] = []
    while found:
        try:
            _save_all(engine, found)
        except OwnershipLostError as error:
            kept = [each for each in found if each.lease.name != error.name]
            if len(kept) == len(found):
                raise
            lost.append(error)
            found = kept
        else:
            break
    return lost


def _save_all(engine: Engine, found: Sequence[Standing]) -> None:
    try:
        _save(engine, found)
    except (OwnershipLostError, StoreUnavailableError):
        raise
    except Exception as error:
        if len(found) > 1:
            for each in found:
                _save_all(engine, [each])
            return
        [(owed, lease, standing)] = found
        if standing.acked is None and standing.words.name is SessionState.FAILED:
            raise
        reason = f"the standing of this session cannot be stored: {described(error)}"
        log.warning("a standing cannot be stored", **owed._asdict(), reason=reason)
        words = StatusText(SessionState.FAILED, reason)
        _save_all(engine, [Standing(owed, lease, replace(standing, words=words, acked=None, transferred_rows=0))])


def _save(engine: Engine, standings: Sequence[Standing]) -> None:
    with writing(engine) as connection:
        check_ranges(connection, {each.lease for each in standings})
        sessions.save_sessions(connection, [_change(each.owed, each.facts) for each in standings])


def finish(engine: Engine, ended: Iterable[Standing]) -> None:
    """Save sessions as finished whose link has ended; forgotten ones have no row any more."""
    words = StatusText(SessionState.FINISHED, "the link has ended")
    save(engine, [each._replace(facts=replace(each.facts, words=words)) for each in ended])


def deactivate(engine: Engine, ended: Mapping[SessionKey, Lease], reason: str) -> None:
    """Mark sessions as inactive that have ended, each under the lease of its range.

    Raises `OwnershipLostError` for the errors of `save`.
    """
    if not ended:
        return
    with writing(engine) as connection:
        check_ranges(connection, set(ended.values()))
        for owed in sorted(ended):
            sessions.set_state(connection, owed, SessionState.INACTIVE, reason)


def follow(engine: Engine, lease: Lease, known: KnownSites) -> None:
    """Record the *known* sites, and mark the sessions inactive whose destination or client is not among them.

    Raises `OwnershipLostError` if *lease*, that of the sequencer, is lost, and `StoreUnavailableError`.
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
                reason = NO_PEER
            elif not known.has_client(owed.client):
                reason = "the client is not among the clients of the server"
            else:
                continue
            sessions.set_state(connection, owed, SessionState.INACTIVE, reason)


def _change(owed: SessionKey, standing: SessionStanding) -> SessionChange:
    rows, words = standing.transferred_rows, standing.words
    reason = f"{words.detail} ({rows:,} rows sent)" if rows else words.detail
    return SessionChange(
        owed,
        words.name,
        reason,
        rows,
        standing.acked,
        standing.applied_seq,
        standing.replaced,
        standing.window_percent,
    )
