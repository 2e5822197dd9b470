"""Read the status of a site, for the server, the command line and monitors."""

from collections import Counter

from sqlalchemy import Connection, Engine

from discovery.log_reads import read_ordering, read_unknown
from discovery.log_status import LogStatus
from discovery.receive_reads import read_receive_queues
from discovery.replay_status import ENDED_SECONDS, ReplayStatus
from discovery.resend_status import ResendStatus
from discovery.server_status import OwnerStatus, SiteServer
from discovery.session_reads import read_quiet, read_sessions
from discovery.session_status import LinkStatus, ReplicasStatus
from discovery.site_status import SiteStatus
from discovery.snapshot_reads import read_snapshots
from queues.browse.send_log import waiting
from queues.clock import now_us
from queues.database import dialects, leases, schema
from queues.database.followers import standby_facts
from queues.database.migrations import require
from queues.database.servers import view_of
from queues.database.transactions import reading
from queues.leadership import ServersView
from queues.receive import replays
from queues.replica_groups import Groups
from queues.send_log.links import every_link
from queues.send_log.newest_ticks import read_newest
from queues.send_log.opening import segment_reads
from queues.send_log.reads import trimmed_seq
from queues.send_log.replica_members import read_active, read_groups
from queues.send_log.resends import unfinished_orders
from queues.send_log.ring.member_rows import rank_at
from queues.send_log.sessions import every_session


def read_status(engine: Engine) -> SiteStatus:
    """Return the status of the site at one moment, without its `server` part."""
    with reading(engine, snapshot=True) as connection:
        info = require(connection)
        recent = read_newest(connection)
        newest, trimmed = recent.newest, trimmed_seq(connection)
        groups = read_groups(connection)
        rows = every_session(connection)
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
                trimmed_seq=trimmed,
                last_tick_us=newest.created_us if newest else None,
                # Counted up to a limit, because without a server the number grows without end.
                waiting=waiting(connection, newest),
                ordering=read_ordering(connection),
                unknown=read_unknown(connection),
                trim_blockers=tuple(segment_reads(connection).blockers(connection)),
                unlogged=tuple(schema.unlogged(connection)),
                hiding=tuple(schema.hiding(connection)),
                altering=tuple(schema.altering(connection)),
            ),
            sessions=read_sessions(connection, rows, recent, trimmed, view),
            snapshots=read_snapshots(connection),
            quiet=read_quiet(connection, rows, groups),
            servers=_servers(view),
            standbys=standby_facts(connection),
            links=tuple(LinkStatus(*each) for each in every_link(connection)),
            replicas=_replicas(connection, groups),
            receive_queues=read_receive_queues(connection, alive),
            replays=_replays(connection),
            resends=tuple(map(ResendStatus.of, unfinished_orders(connection))),
            ring_rank=rank_at(connection),
        )


def _replicas(connection: Connection, groups: Groups) -> tuple[ReplicasStatus, ...]:
    chosen = {each.name: (each.member, each.generation) for each in read_active(connection)} if groups else {}
    return tuple(ReplicasStatus(name, members, *chosen.get(name, ("", 0))) for name, members in groups.items())


def _replays(connection: Connection) -> tuple[ReplayStatus, ...]:
    since_us = now_us() - int(ENDED_SECONDS * 1_000_000)
    return tuple(map(ReplayStatus.of, replays.waiting_or_ended_since(connection, since_us)))


def _owners(connection: Connection) -> tuple[OwnerStatus, ...]:
    # Leases run by the clock of the database.
    now = dialects.of(connection).now_us(connection)
    return tuple(
        OwnerStatus(
            lease=row.name,
            owner=row.owner,
            generation=row.generation,
            alive=row.expires_us > now,
            lapsed_us=row.expires_us if 0 < row.expires_us <= now else None,
        )
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
            sink_trouble=row.sink_trouble,
        )
        for row in view.servers
    )
