"""Read the status of a site, for the server, the command line and monitors.

The lag of a session counts its entries that the sink has not acknowledged as durable, sent or not. The applied lag also
counts those that the subscriber there has not applied.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, TypedDict

from sqlalchemy import Connection, Engine

from discovery.log_status import LogStatus, OrderingStatus, UnknownStatus
from discovery.ranges import range_of
from discovery.receive_status import FailureStatus, ReceivePhase, ReceiveQueueStatus, ShardStatus, StagingStatus
from discovery.replay_status import ENDED_SECONDS, ReplayStatus
from discovery.server_status import OwnerStatus, SiteServer
from discovery.session_status import STALL_SECONDS, Lag, LinkStatus, ReplicasStatus, SessionStatus
from discovery.site_status import SiteStatus
from discovery.snapshot_status import SnapshotStatus
from queues import send_snapshot
from queues.browse.send_log import waiting
from queues.browse.unknown import unknown_destinations
from queues.clock import now_us
from queues.counts import COUNTED
from queues.database import leases, schema
from queues.database.followers import standby_facts
from queues.database.migrations import require
from queues.database.servers import view_of
from queues.database.transactions import reading
from queues.leadership import ServersView
from queues.positions import Tick
from queues.receive import failures, replays, shard_marks
from queues.receive.consumer_marks import subscriber_lease
from queues.receive.queue_marks import QueueRow, backlog, every_queue
from queues.send_log import unordered
from queues.send_log.history import bytes_upto, first_created_after
from queues.send_log.known_sites import read_known
from queues.send_log.lag import owed_after
from queues.send_log.links import every_link
from queues.send_log.port import SessionKey
from queues.send_log.reads import newest_tick, source_clients, trimmed_seq
from queues.send_log.replica_members import read_active, read_groups
from queues.send_log.ring.member_rows import rank_at
from queues.send_log.sessions import SessionRow, every_session
from queues.send_snapshot.progress import Progress, cut_seconds, progress_of
from queues.states import SessionState

#: A cancelled request for a snapshot is shown for this time, in seconds; `lrq snapshot list` shows it longer.
CANCELLED_SECONDS = 60.0
#: The newest requests that are read, and shown at most.
_READ: Final = 100
_SHOWN: Final = 20


class _Leader(TypedDict):
    server: str
    generation: int


_WITHOUT_CONNECTION = (
    SessionState.BACKING_OFF,
    SessionState.NEGOTIATING,
    SessionState.FAILED,
    SessionState.STOPPED,
)


def read_status(engine: Engine) -> SiteStatus:
    """Return the status of the site at one moment, without its `server` part."""
    with reading(engine, snapshot=True) as connection:
        info = require(connection)
        newest = newest_tick(connection)
        rows, unprovided = every_session(connection), _unprovided(connection)
        owners = _owners(connection)
        view = view_of(connection)
        alive = {each.lease: each.owner for each in owners if each.alive}
        return SiteStatus(
            site=info.site_id,
            at_us=now_us(),
            owners=owners,
            log=LogStatus(
                branch=info.branch,
                seq=newest.end_seq if newest else 0,
                trimmed_seq=trimmed_seq(connection),
                last_tick_us=newest.created_us if newest else None,
                # Counted up to a limit, because without a server the number grows without end.
                waiting=waiting(connection),
                ordering=read_ordering(connection),
                unknown=read_unknown(connection),
            ),
            sessions=tuple(
                replace(
                    _session(connection, row, newest, unprovided=(row.client, row.destination) in unprovided),
                    **_leader(row, view),
                )
                for row in rows
            ),
            snapshots=tuple(
                snapshot_status(found)
                for found in without_cancelled(send_snapshot.listing(connection, limit=_READ), now_us())[:_SHOWN]
            ),
            quiet=_quiet(connection, rows),
            servers=_servers(view),
            standbys=standby_facts(connection),
            links=tuple(LinkStatus(*each) for each in every_link(connection)),
            replicas=_replicas(connection),
            receive_queues=tuple(_receive(connection, row, alive) for row in every_queue(connection)),
            replays=_replays(connection),
            ring_rank=rank_at(connection),
        )


def without_cancelled(
    newest_first: Sequence[send_snapshot.SnapshotSync], at_us: int
) -> list[send_snapshot.SnapshotSync]:
    """Leave out requests that were cancelled more than `CANCELLED_SECONDS` ago, and older ones of the same session.

    An older request no longer tells how the session stands: a failed one would look like a new trouble. Pure.
    """
    left_out: set[tuple[str, str]] = set()
    shown = []
    for found in newest_first:
        session = (found.client, found.destination)
        is_old = found.updated_us < at_us - CANCELLED_SECONDS * 1_000_000
        if found.state is send_snapshot.SnapshotState.CANCELLED and is_old:
            left_out.add(session)
        elif session not in left_out:
            shown.append(found)
    return shown


def _unprovided(connection: Connection) -> set[SessionKey]:
    return {SessionKey(each.client, each.destination) for each in send_snapshot.unprovided(connection)}


def _replicas(connection: Connection) -> tuple[ReplicasStatus, ...]:
    groups = read_groups(connection)
    chosen = {each.name: (each.member, each.generation) for each in read_active(connection)} if groups else {}
    return tuple(ReplicasStatus(name, members, *chosen.get(name, ("", 0))) for name, members in groups.items())


def _replays(connection: Connection) -> tuple[ReplayStatus, ...]:
    since_us = now_us() - int(ENDED_SECONDS * 1_000_000)
    return tuple(map(ReplayStatus.of, replays.waiting_or_ended_since(connection, since_us)))


def _quiet(connection: Connection, rows: Sequence[SessionRow]) -> tuple[SessionKey, ...]:
    known = read_known(connection)
    if known is None:
        return ()
    clients = known.clients or source_clients(connection)
    there = {(row.client, row.destination) for row in rows}
    # The name of a group of replicas is known to senders, and has no session of its own.
    sites = sorted(known.peers - read_groups(connection).keys())
    pairs = (SessionKey(client, peer) for client in sorted(clients) for peer in sites)
    return tuple(pair for pair in pairs if pair not in there)


def read_ordering(connection: Connection) -> OrderingStatus:
    """Return the entries without a place in the order of commits."""
    return OrderingStatus(tuple(unordered.recorded(connection)), tuple(schema.untriggered(connection)))


def read_unknown(connection: Connection) -> tuple[UnknownStatus, ...]:
    """Return the destinations with entries that are no peers, as the last server recorded its peers."""
    return tuple(
        UnknownStatus(
            *each.owed,
            entries=each.waiting.entries,
            more=each.waiting.is_least,
            oldest_seconds=round(max(now_us() - each.oldest_us, 0) / 1_000_000, 3) if each.oldest_us else 0.0,
            dropped=each.dropped,
            is_peer=each.is_peer,
        )
        for each in unknown_destinations(connection)
    )


def _owners(connection: Connection) -> tuple[OwnerStatus, ...]:
    now = now_us()
    return tuple(
        OwnerStatus(lease=row.name, owner=row.owner, generation=row.generation, alive=row.expires_us > now)
        for row in leases.every_lease(connection)
        if row.owner
    )


def _servers(view: ServersView) -> tuple[SiteServer, ...]:
    led = Counter(row.server for row in view.ranges)
    sequencer = None if view.sequencer is None else view.sequencer.owner
    return tuple(
        SiteServer(
            name=row.server,
            endpoints=row.endpoints,
            alive=row.server in view.living,
            since_us=row.started_us,
            ranges=led[row.server] if row.server in view.living else 0,
            sequencer=row.server == sequencer,
            topology=row.topology,
        )
        for row in view.servers
    )


def _leader(row: SessionRow, view: ServersView) -> _Leader:
    """Return the server that leads a session, and the generation that the session tells its sink."""
    if not view.ranges or row.state is SessionState.INACTIVE:
        return _Leader(server="", generation=0)
    led = view.ranges[range_of(row.client, row.destination, len(view.ranges))]
    is_led = led.server in view.living
    return _Leader(server=led.server if is_led else "", generation=led.generation + row.lead if is_led else 0)


def _session(connection: Connection, row: SessionRow, newest: Tick | None, *, unprovided: bool) -> SessionStatus:
    # An inactive session sends nothing.
    until = None if row.state is SessionState.INACTIVE else newest
    lag = _lag(connection, row, row.acked_seq, until)
    applied_seq = _applied_from(connection, row)
    applied_lag = _lag(connection, row, applied_seq, until) if applied_seq < row.acked_seq else lag
    # A session that tries to connect changes its state again and again, without progress.
    is_stuck = row.state in _WITHOUT_CONNECTION or now_us() - row.updated_us > STALL_SECONDS * 1_000_000
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
        unapplied=applied_lag.entries > lag.entries and applied_lag.seconds > STALL_SECONDS,
    )


def _applied_from(connection: Connection, row: SessionRow) -> int:
    """Return the position from which entries are not applied; a snapshot that is applied now holds those before."""
    if row.applied_seq is None:
        return row.acked_seq
    if row.applied_seq:
        return row.applied_seq
    newest = send_snapshot.newest(connection, row.client, row.destination)
    return newest.base.seq if newest is not None and newest.state is send_snapshot.SnapshotState.APPLIED else 0


def _lag(connection: Connection, row: SessionRow, seq: int, newest: Tick | None) -> Lag:
    if newest is None or seq >= newest.end_seq:
        return Lag()
    is_lost = seq < min(row.lost_seq, trimmed_seq(connection))
    found = None if is_lost else owed_after(connection, SessionKey(row.client, row.destination), seq, newest)
    if found is None:
        since = first_created_after(connection, seq) or newest.created_us
        size = newest.bytes_total - bytes_upto(connection, seq)
        return Lag(newest.end_seq - seq, size, _seconds_since(since), is_most=True)
    if not found.entries or found.oldest_us is None:
        return Lag()
    return Lag(found.entries, found.bytes, _seconds_since(found.oldest_us))


def _seconds_since(moment_us: int) -> float:
    return round(max(now_us() - moment_us, 0) / 1_000_000, 3)


_NO_PROGRESS: Final = Progress(0, None, None, None)


def snapshot_status(found: send_snapshot.SnapshotSync) -> SnapshotStatus:
    """Return the status of one request for a snapshot, with its progress until now."""
    now = now_us()
    progress = progress_of(found, now) or _NO_PROGRESS
    return SnapshotStatus(
        sync_id=found.sync_id,
        client=found.client,
        destination=found.destination,
        state=found.state,
        reason=found.reason,
        attempt=found.attempt,
        rows=found.rows,
        bytes=found.bytes,
        progress=found.progress,
        expected_rows=found.expected_rows,
        sent_rows=found.sent_rows if found.state is send_snapshot.SnapshotState.READY else 0,
        share=_rounded(progress.share, 4),
        rows_per_second=_rounded(progress.rows_per_second, 1),
        seconds_left=_rounded(progress.seconds_left, 1),
        cut_seconds=_rounded(cut_seconds(found, now), 1),
        error=found.error,
        requested_us=found.requested_us,
        updated_us=found.updated_us,
    )


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


def _receive(connection: Connection, row: QueueRow, alive: Mapping[str, str]) -> ReceiveQueueStatus:
    outstanding, oldest, parked = backlog(connection, row.queue_id)
    failure = failures.last(connection, row.queue_id)
    shards = _shards(connection, row, alive)
    failed = next((shard.failure for shard in shards if shard.failure), None)
    return ReceiveQueueStatus(
        name=row.name,
        client=row.client,
        source=row.source,
        received_seq=row.received_seq or 0,
        source_seq=row.source_seq or 0,
        applied_seq=row.applied_seq or 0,
        phase=ReceivePhase(row.phase or ReceivePhase.NOT_SUBSCRIBED),
        # Counted up to a limit, because counting a long backlog takes as long as reading it.
        outstanding=min(outstanding, COUNTED),
        more=outstanding > COUNTED,
        oldest_seconds=_seconds_since(oldest) if oldest else 0.0,
        received_total=row.entries_total or 0,
        duplicates_total=row.duplicates_total or 0,
        applied_total=row.applied_total or 0,
        parked=parked,
        staging=StagingStatus(row.staging_sync_id, row.staging_rows or 0) if row.staging_sync_id else None,
        sync_id=row.sync_id or "",
        failure=FailureStatus.of(failure) if failure and not shards else failed,
        subscribed=subscriber_lease(row.client) in alive or any(shard.owner for shard in shards),
        snapshot_waits=(row.sync_id or "") != (row.consumed_sync_id or "") or row.phase == ReceivePhase.SNAPSHOT,
        shards=shards,
    )


def _shards(connection: Connection, row: QueueRow, alive: Mapping[str, str]) -> tuple[ShardStatus, ...]:
    rows = shard_marks.rows_of(connection, row.queue_id)
    failed = failures.of_shards(connection, row.queue_id) if rows else {}
    return tuple(
        ShardStatus(
            shard=each.shard,
            applied_seq=each.seq,
            applied_total=each.applied_total,
            owner=alive.get(subscriber_lease(row.client, each.shard), ""),
            failure=FailureStatus.of(failure) if (failure := failed.get(each.shard)) else None,
        )
        for each in rows
    )
