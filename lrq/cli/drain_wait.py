"""Wait, outside the server, until every session has acknowledged, or applied, all entries committed now."""

from dataclasses import dataclass, replace
from typing import Any, Final

from sqlalchemy import Connection, Engine

from lrq.cli.words import plural
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


@dataclass(frozen=True, slots=True)
class Laggard:
    """A session that has not acknowledged all entries, or is not in log-entry sync.

    `applied_seq` is None unless the wait is for applied entries.
    """

    client: str
    destination: str
    state: SessionState
    reason: str
    acked_seq: int
    applied_seq: int | None = None

    @property
    def reached_seq(self) -> int:
        """The sequence that counts: of applied entries if these are waited for, or else of acknowledged ones."""
        return self.acked_seq if self.applied_seq is None else min(self.acked_seq, self.applied_seq)

    @property
    def in_log(self) -> bool:
        """Whether the session sends the log, also that of a link that ends."""
        return self.state in (SessionState.LOG_ENTRY_SYNC, SessionState.DRAINING)

    def as_json(self) -> dict[str, Any]:
        """Return the JSON of `lrq drain --json`."""
        return {
            "client": self.client,
            "destination": self.destination,
            "state": self.state.value,
            "reason": self.reason,
            "acked_seq": self.acked_seq,
            "applied_seq": self.applied_seq,
        }


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a wait; `seq` is the sequence to acknowledge, None if a committed entry is in no tick yet."""

    seq: int | None
    sessions: int
    laggards: tuple[Laggard, ...]
    missing: tuple[str, ...]
    seconds: float
    server: bool
    has_ended: bool = False

    @property
    def drained(self) -> bool:
        """Whether no session in the scope is missing, and all have acknowledged all entries."""
        return self.seq is not None and not self.laggards and not self.missing

    def reasons(self) -> list[str]:
        """Return one clause for each reason why entries are still outstanding."""
        found = []
        if not self.server:
            found.append("no server works for this site, run `lrq serve`")
        if self.seq is None:
            found.append("some committed entries are in no tick yet")
        found += [f"there is no session to {name}" for name in self.missing]
        for lag in self.laggards:
            state = f"{lag.state}, {lag.reason}" if lag.reason else lag.state.value
            of = "" if self.seq is None else f" of {self.seq}"
            verb = "has applied" if lag.reached_seq < lag.acked_seq else "has"
            found.append(f"{lag.client} to {lag.destination} {verb} {lag.reached_seq}{of} ({state})")
        return found

    def words(self) -> str:
        """Return the line that reports success."""
        if not self.sessions and self.has_ended:
            return "drained: every link has ended"
        if not self.sessions:
            return "drained: there is nothing to replicate"
        return f"drained: {plural(self.sessions, 'session')} up to {self.seq} after {self.seconds:.1f} s"

    def as_json(self) -> dict[str, Any]:
        """Return the JSON of `lrq drain --json`; `seconds` is the time that passed."""
        return {
            "drained": self.drained,
            "seq": self.seq,
            "sessions": self.sessions,
            "laggards": [lag.as_json() for lag in self.laggards],
            "missing": list(self.missing),
            "server": self.server,
            "seconds": round(self.seconds, 3),
        }


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
        held = leases.holder(engine, "server")
        passed = clock.monotonic() - began
        return _outcome(standing, unbegun, chosen, seq, passed, server=held is not None and not held.expired)

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
