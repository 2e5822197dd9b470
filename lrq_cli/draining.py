"""Waiting, from outside the server, until everyone has what is committed now."""

import threading
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, Engine, select

from lr_server.states import LEFT_OUT
from lrq_cli.words import plural
from queues import leases
from queues.browse.log import browsing
from queues.clock import SYSTEM_CLOCK
from queues.log.sql import newest_tick
from queues.positions import Mark
from queues.tables import sessions
from queues.transactions import reading

_PAUSE: Final = 0.05
#: The state of a session that has nothing before the log to do.
_IN_LOG: Final = "log-entry sync"


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose sessions count; no destinations are all of them."""

    client: str | None = None
    destinations: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Laggard:
    """A session that does not have everything."""

    client: str
    destination: str
    state: str
    reason: str
    acked_seq: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """How it ended. `seq` is what all should have; None when not everything was closed in ticks."""

    seq: int | None
    sessions: int
    laggards: tuple[Laggard, ...]
    missing: tuple[str, ...]
    seconds: float
    server: bool

    @property
    def drained(self) -> bool:
        """Whether everyone in the scope has everything."""
        return self.seq is not None and not self.laggards and not self.missing

    def reasons(self) -> list[str]:
        """Say why it is not drained."""
        found = []
        if not self.server:
            found.append("no server works for this site, run `lrq serve`")
        if self.seq is None:
            found.append("entries are committed that no tick holds yet")
        found += [f"there is no session to {name}" for name in self.missing]
        for lag in self.laggards:
            state = f"{lag.state}, {lag.reason}" if lag.reason else lag.state
            of = "" if self.seq is None else f" of {self.seq}"
            found.append(f"{lag.client} to {lag.destination} has {lag.acked_seq}{of} ({state})")
        return found

    def words(self) -> str:
        """Say that it is drained."""
        if not self.sessions:
            return "drained: there is nothing to replicate"
        return f"drained: {plural(self.sessions, 'session')} up to {self.seq} after {self.seconds:.1f} s"

    def facts(self) -> dict[str, Any]:
        """Return it as JSON says it."""
        return {
            "drained": self.drained,
            "seq": self.seq,
            "sessions": self.sessions,
            "laggards": [
                {name: getattr(lag, name) for name in ("client", "destination", "state", "reason", "acked_seq")}
                for lag in self.laggards
            ],
            "missing": list(self.missing),
            "server": self.server,
            "seconds": round(self.seconds, 3),
        }


def drain(engine: Engine, scope: Scope, timeout: float) -> Outcome:
    """Look until everyone in *scope* has what is committed at the call, at most *timeout* seconds."""
    began = SYSTEM_CLOCK.monotonic()
    never = threading.Event()
    with reading(engine, snapshot=True) as connection:
        committed = browsing(connection).committed(connection)
    seq: int | None = None
    while True:
        with reading(engine, snapshot=True) as connection:
            if seq is None:
                seq = _closed_at(connection, committed)
            standing = _standing(connection, scope)
        held = leases.holder(engine, "server")
        passed = SYSTEM_CLOCK.monotonic() - began
        outcome = _outcome(standing, scope, seq, passed, server=held is not None and not held.expired)
        if outcome.drained or passed >= timeout:
            return outcome
        SYSTEM_CLOCK.wait(never, _PAUSE)


def _closed_at(connection: Connection, committed: Mark) -> int | None:
    """Return where a tick ends with which everything *committed* is closed; None while something is not."""
    newest = newest_tick(connection)
    after = Mark.parse(newest.mark) if newest else None
    if browsing(connection).uncovered(connection, after, committed, 1):
        return None
    return newest.end_seq if newest else 0


def _standing(connection: Connection, scope: Scope) -> list[Laggard]:
    running = select(sessions).where(sessions.c.state != LEFT_OUT)
    rows = connection.execute(running.order_by(sessions.c.destination, sessions.c.client))
    return [
        Laggard(row.client, row.destination, row.state, row.reason, row.acked_seq)
        for row in rows
        if scope.client in (None, row.client) and (not scope.destinations or row.destination in scope.destinations)
    ]


def _outcome(standing: list[Laggard], scope: Scope, seq: int | None, passed: float, *, server: bool) -> Outcome:
    wanted = scope.destinations or (frozenset({"any site"}) if seq != 0 and not standing else frozenset())
    missing = wanted - {each.destination for each in standing}
    behind = tuple(each for each in standing if seq is None or each.acked_seq < seq or each.state != _IN_LOG)
    return Outcome(seq, len(standing), behind, tuple(sorted(missing)), passed, server)
