"""Wait until every destination has acknowledged every committed entry."""

from sqlalchemy import Connection, Engine

from lr_server.protocol.states import StatusText
from lr_server.source.source import Source
from queues.browse.closed import closed_at, coming_sessions
from queues.browse.send_log import browsing
from queues.clock import Clock, poll
from queues.database import schema
from queues.database.transactions import reading
from queues.errors import PeerUnreachableError, UsageError, VersionLostError, WaitTimeoutError
from queues.lineage import keeps, trace
from queues.patience import patiently
from queues.positions import Position, PositionToken
from queues.send_log.history import branch_starts, end_covering, lineage
from queues.send_log.known_sites import read_known
from queues.send_log.links import draining_links, unclaimed
from queues.send_log.port import SessionKey
from queues.send_log.reads import newest_tick
from queues.send_log.sessions import every_session
from queues.states import SessionState

_PAUSE = 0.02
_SENDS = (SessionState.LOG_ENTRY_SYNC, SessionState.DRAINING)


def drain(
    engine: Engine,
    source: Source | None,
    timeout: float,
    clock: Clock,
    *,
    until: PositionToken | Position | None = None,
) -> None:
    """See `LogReplicationServer.drain`; *source* is the part of the work that this process does."""
    goal = _Goal(engine, source, clock, until)
    if source is not None:
        source.look()

    def is_over(missing: list[str]) -> bool:
        return not missing or goal.is_given_up

    look = patiently(goal.missing, lambda error: [str(error)], clock=clock)
    missing = poll(look, is_over, timeout=timeout, pause=_PAUSE, clock=clock)
    if missing and goal.is_given_up and (missing := goal.missing()):
        raise PeerUnreachableError(f"not drained: {'; '.join(missing)}")
    if missing:
        raise WaitTimeoutError(f"not drained after {timeout:g} s: {'; '.join(missing)}")


class _Goal:
    """The entries of all present clients that are committed now, or up to a token or position."""

    def __init__(
        self, engine: Engine, source: Source | None, clock: Clock, until: PositionToken | Position | None
    ) -> None:
        self._engine = engine
        self._source = source
        self._clock = clock
        self._until = until
        self._closed_at: float | None = None
        self._end = 0
        with reading(engine, snapshot=True) as connection:
            self._committed = browsing(connection).committed(connection)
            own = schema.site(connection, None).site_id
        if isinstance(until, PositionToken) and until.site != own:
            raise UsageError(f"the token {until} is one of site {until.site!r}, not of {own!r}: wait there")

    @property
    def is_given_up(self) -> bool:
        """Whether a session of this server tries no more, once all sessions were checked after the goal was set."""
        if self._source is None or self._closed_at is None:
            return False
        supervisor = self._source.supervisor
        return supervisor.looked_from >= self._closed_at and any(each.has_given_up for each in supervisor.sessions())

    def missing(self) -> list[str]:
        """Return the reasons why the goal is not reached yet; empty when the goal is reached."""
        with reading(self._engine, snapshot=True) as connection:
            if self._closed_at is None:
                end = self._closed(connection)
                if end is None:
                    return [self._trouble("sequencer") or self._unread(connection)]
                self._end, self._closed_at = end, self._clock.monotonic()
            # A new client gets its sessions after the first tick that holds its entries.
            if self._source is not None and self._source.supervisor.looked_from < self._closed_at:
                return [self._trouble("sessions") or "the supervisor has not checked the sessions since"]
            return self._behind(connection)

    def _closed(self, connection: Connection) -> int | None:
        """Return the end of a tick that covers the goal; None without one yet."""
        if self._until is None:
            return closed_at(connection, self._committed)
        if isinstance(self._until, Position):
            return self._reached(connection, self._until)
        token = self._until
        found = trace(lineage(connection), token.branch, token.timeline, token.transaction)
        if found.is_lost:
            raise VersionLostError(f"the transaction of {token} is not in the history of this site: write it again")
        ends = (end_covering(connection, holder, token.transaction) for holder in found.holders)
        return next((end for end in ends if end is not None), None)

    def _reached(self, connection: Connection, position: Position) -> int | None:
        """Return the number of a position that the log has reached; None before."""
        if not keeps(branch_starts(connection), position):
            raise VersionLostError(
                f"the history of this site does not contain {position}: read branch and seq of `lrq status --json`"
            )
        newest = newest_tick(connection)
        return position.seq if newest is not None and newest.end_seq >= position.seq else None

    def _unread(self, connection: Connection) -> str:
        newest = newest_tick(connection)
        if isinstance(self._until, Position):
            return f"the log ends at {newest.end_seq if newest else 0}, before {self._until}"
        if self._until is not None and self._until.branch not in dict(branch_starts(connection)):
            return f"the history of this site has no branch {self._until.branch}, as the token {self._until} says"
        return "the sequencer has not read the log since"

    def _trouble(self, part: str) -> str:
        return "" if self._source is None else self._source.troubles.get(part, "")

    def _behind(self, connection: Connection) -> list[str]:
        known = read_known(connection)
        if known is None:
            return ["no server has recorded the sites yet"]
        found = [f"there is no session for {_name(owed)}" for owed in coming_sessions(connection, known)]
        over, draining = unclaimed(connection), draining_links(connection)
        for owed, (words, acked_seq) in sorted((_stored(connection) | self._own()).items()):
            if owed in over:
                continue
            # A link that has ended must be finished. With an earlier goal only the entries up to there count.
            is_sent = words.name in _SENDS and acked_seq >= self._end
            if not is_sent or (owed in draining and self._until is None):
                found.append(f"{_name(owed)}: {acked_seq} of {self._end} ({_say(words)})")
        return found

    def _own(self) -> dict[SessionKey, tuple[StatusText, int]]:
        """Return the sessions of this server, which the database knows a moment later."""
        running = () if self._source is None else self._source.supervisor.sessions()
        standings = {session.owed: session.standing for session in running}
        return {owed: (each.words, each.acked.seq if each.acked else 0) for owed, each in standings.items()}


def _stored(connection: Connection) -> dict[SessionKey, tuple[StatusText, int]]:
    return {
        SessionKey(row.client, row.destination): (StatusText(row.state, row.reason), row.acked_seq)
        for row in every_session(connection)
        if row.state is not SessionState.INACTIVE
    }


def _name(owed: SessionKey) -> str:
    return f"{owed.client} to {owed.destination}"


def _say(words: StatusText) -> str:
    return f"{words.name}: {words.detail}" if words.detail else words.name
