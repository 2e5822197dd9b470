"""Read the status of each session, with its lag.

The lag of a session counts its entries that the sink has not acknowledged as durable, sent or not. The applied lag also
counts those that the subscriber there has not applied.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypedDict

from sqlalchemy import Connection

from discovery.ranges import range_of
from discovery.session_status import STALL_SECONDS, Lag, SessionStatus
from queues import send_snapshot
from queues.clock import now_us, seconds_since
from queues.leadership import ServersView
from queues.replica_groups import Groups
from queues.send_log.known_sites import read_known
from queues.send_log.lag import OwedReader
from queues.send_log.newest_ticks import NewestTicks, ticks_around
from queues.send_log.port import SessionKey
from queues.send_log.reads import source_clients
from queues.send_log.sessions import SessionRow
from queues.states import SessionState

_WITHOUT_CONNECTION = (
    SessionState.BACKING_OFF,
    SessionState.NEGOTIATING,
    SessionState.FAILED,
    SessionState.STOPPED,
)


class _Leader(TypedDict):
    server: str
    generation: int


def read_sessions(
    connection: Connection, rows: Sequence[SessionRow], recent: NewestTicks, trimmed_seq: int, view: ServersView
) -> tuple[SessionStatus, ...]:
    """Return the status of the sessions in *rows*; the log is trimmed up to *trimmed_seq*."""
    unprovided = _unprovided(connection)
    lags = _Lags(connection, recent, trimmed_seq)
    return tuple(
        replace(
            _session(connection, row, lags, unprovided=(row.client, row.destination) in unprovided),
            **_leader(row, view),
        )
        for row in rows
    )


def read_quiet(connection: Connection, rows: Sequence[SessionRow], groups: Groups) -> tuple[SessionKey, ...]:
    """Return the pairs of a client and a peer that have no session in *rows* yet; *groups* are those of replicas."""
    known = read_known(connection)
    if known is None:
        return ()
    clients = known.clients or source_clients(connection)
    there = {(row.client, row.destination) for row in rows}
    # The name of a group of replicas is known to senders, and has no session of its own.
    sites = sorted(known.peers - groups.keys())
    pairs = (SessionKey(client, peer) for client in sorted(clients) for peer in sites)
    return tuple(pair for pair in pairs if pair not in there)


def _unprovided(connection: Connection) -> set[SessionKey]:
    return {SessionKey(each.client, each.destination) for each in send_snapshot.unprovided(connection)}


def _leader(row: SessionRow, view: ServersView) -> _Leader:
    """Return the server that leads a session, and the generation that the session tells its sink."""
    if not view.ranges or row.state is SessionState.INACTIVE:
        return _Leader(server="", generation=0)
    led = view.ranges[range_of(row.client, row.destination, len(view.ranges))]
    is_led = led.server in view.living
    return _Leader(server=led.server if is_led else "", generation=led.generation + row.lead if is_led else 0)


class _Lags:
    """Tells the lags of sessions in one transaction."""

    def __init__(self, connection: Connection, recent: NewestTicks, trimmed_seq: int) -> None:
        self._connection = connection
        self._recent = recent
        self._trimmed_seq = trimmed_seq
        self._owed = OwedReader(connection)

    def of(self, row: SessionRow, seq: int) -> Lag:
        """Return the lag of a session that stands at *seq*; an inactive one sends nothing, and has none."""
        return self._after(row, seq, is_lost=seq < min(row.lost_seq, self._trimmed_seq))

    def of_applied(self, row: SessionRow, seq: int) -> Lag:
        """Return the lag of a session whose destination has applied its entries up to *seq*.

        The log may be trimmed behind *seq*, because the destination has the entries. Then no reader can count them.
        """
        return self._after(row, seq, is_lost=seq < self._trimmed_seq)

    def _after(self, row: SessionRow, seq: int, *, is_lost: bool) -> Lag:
        newest = self._recent.newest
        if newest is None or seq >= newest.end_seq or row.state is SessionState.INACTIVE:
            return Lag()
        around = ticks_around(self._connection, self._recent, seq)
        key = SessionKey(row.client, row.destination)
        found = None if is_lost else self._owed.after(key, seq, around, newest)
        if found is None:
            size = newest.bytes_total - (around.before.bytes_total if around.before else 0)
            return Lag(newest.end_seq - seq, size, seconds_since(around.following.created_us), is_most=True)
        if not found.entries or found.oldest_us is None:
            return Lag()
        return Lag(found.entries, found.bytes, seconds_since(found.oldest_us))


def _session(connection: Connection, row: SessionRow, lags: _Lags, *, unprovided: bool) -> SessionStatus:
    lag = lags.of(row, row.acked_seq)
    applied_seq = _applied_from(connection, row)
    applied_lag = lags.of_applied(row, applied_seq) if applied_seq < row.acked_seq else lag
    # A session that tries to connect changes its state again and again, without progress.
    is_connected = row.state not in _WITHOUT_CONNECTION
    is_stuck = not is_connected or now_us() - row.updated_us > STALL_SECONDS * 1_000_000
    return SessionStatus(
        client=row.client,
        destination=row.destination,
        state=row.state,
        reason=row.reason,
        branch=row.branch,
        acked_seq=row.acked_seq,
        lag=lag,
        stalled=lag.entries > 0 and lag.seconds > STALL_SECONDS and is_stuck,
        updated_us=row.updated_us,
        replaced=row.replaced_total,
        window_percent=row.window_percent,
        unprovided=unprovided and row.state is not SessionState.INACTIVE,
        applied_seq=row.applied_seq,
        applied_lag=applied_lag,
        # Without a connection, the destination may have applied more than it has told.
        unapplied=is_connected and applied_lag.entries > lag.entries and applied_lag.seconds > STALL_SECONDS,
    )


def _applied_from(connection: Connection, row: SessionRow) -> int:
    """Return the position from which entries are not applied; a snapshot that is applied now holds those before."""
    if row.applied_seq is None:
        return row.acked_seq
    if row.applied_seq:
        return row.applied_seq
    newest = send_snapshot.newest(connection, row.client, row.destination)
    return newest.base.seq if newest is not None and newest.state is send_snapshot.SnapshotState.APPLIED else 0
