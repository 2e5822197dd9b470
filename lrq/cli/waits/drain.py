"""Wait, outside the server, until every session has acknowledged, or applied, all entries committed now."""

from dataclasses import dataclass, replace
from typing import Final

from sqlalchemy import Connection, Engine

from lrq.cli.waits.drain_outcome import Laggard, Outcome
from queues.browse.closed import closed_at, coming_sessions
from queues.browse.send_log import browsing
from queues.clock import SYSTEM_CLOCK, Clock, poll
from queues.database import leases
from queues.database.transactions import reading
from queues.names import SiteId
from queues.replica_groups import named_sites
from queues.send_log.known_sites import read_known
from queues.send_log.links import unclaimed
from queues.send_log.port import SessionKey
from queues.send_log.replica_members import read_groups
from queues.send_log.ring.member_rows import rank_at
from queues.send_log.sessions import every_session
from queues.states import SessionState

_PAUSE: Final = 0.05


@dataclass(frozen=True, slots=True)
class Scope:
    """The sessions to wait for; an empty set of destinations means all of them.

    With `applied`, the subscribers at the destinations must have applied the entries too.
    """

    client: str | None = None
    destinations: frozenset[str] = frozenset()
    applied: bool = False


def drain(engine: Engine, scope: Scope, timeout: float, *, clock: Clock = SYSTEM_CLOCK) -> Outcome:
    """Wait until the sessions in *scope* have all entries committed now; at most *timeout* seconds. See `Scope`."""
    began = clock.monotonic()
    with reading(engine, snapshot=True) as connection:
        committed = browsing(connection).committed(connection)
    seq: int | None = None

    def look() -> Outcome:
        nonlocal seq
        with reading(engine, snapshot=True) as connection:
            if seq is None:
                seq = closed_at(connection, committed)
            chosen = _of_sites(connection, scope)
            standing = _standing(connection, chosen)
            unbegun = _unbegun(connection, chosen)
            is_member = rank_at(connection) is not None
        held = leases.holder(engine, "server")
        works, passed = held is not None and not held.expired, clock.monotonic() - began
        outcome = _outcome(standing, unbegun, chosen, seq, passed, server=works)
        return replace(outcome, is_other_member=is_member and not works)

    return poll(look, lambda outcome: outcome.drained, timeout=timeout, pause=_PAUSE, clock=clock)


def _of_sites(connection: Connection, scope: Scope) -> Scope:
    """Return *scope* with the members of a group of replicas in its place."""
    return replace(scope, destinations=frozenset(named_sites(map(SiteId, scope.destinations), read_groups(connection))))


def _standing(connection: Connection, scope: Scope) -> list[Laggard]:
    over = unclaimed(connection)
    return [
        Laggard(
            row.client,
            row.destination,
            row.state,
            row.reason,
            row.acked_seq,
            (row.applied_seq or 0) if scope.applied else None,
        )
        for row in every_session(connection)
        if row.state is not SessionState.INACTIVE
        and SessionKey(row.client, row.destination) not in over
        and scope.client in (None, row.client)
        and (not scope.destinations or row.destination in scope.destinations)
    ]


@dataclass(frozen=True, slots=True)
class _Unbegun:
    """Sites without a session to wait for.

    Entries name the `coming` peers, and no entry names the `quiet` ones. The links to `finished` sites have ended.
    """

    coming: frozenset[str]
    quiet: frozenset[str]
    finished: frozenset[str]


def _unbegun(connection: Connection, scope: Scope) -> _Unbegun:
    known = read_known(connection)
    finished = frozenset(owed.destination for owed in unclaimed(connection) if scope.client in (None, owed.client))
    if known is None:
        return _Unbegun(frozenset(), frozenset(), finished)
    coming = {owed.destination for owed in coming_sessions(connection, known) if scope.client in (None, owed.client)}
    return _Unbegun(frozenset(coming), frozenset(known.peers - coming), finished)


def _outcome(
    standing: list[Laggard], unbegun: _Unbegun, scope: Scope, seq: int | None, passed: float, *, server: bool
) -> Outcome:
    is_alone = seq != 0 and not standing and not unbegun.finished
    wanted = scope.destinations or (frozenset({"any site"}) if is_alone else frozenset())
    coming = unbegun.coming & (scope.destinations or unbegun.coming)
    missing = (wanted - {each.destination for each in standing} - unbegun.quiet - unbegun.finished) | coming
    behind = tuple(each for each in standing if seq is None or each.reached_seq < seq or not each.in_log)
    return Outcome(seq, len(standing), behind, tuple(sorted(missing)), passed, server, has_ended=bool(unbegun.finished))
