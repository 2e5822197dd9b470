"""Trim a site's log by hand, and decide about entries that no trim removes."""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import Engine

from discovery.log_reads import read_ordering, read_unknown
from discovery.log_status import OrderingStatus, UnknownStatus
from discovery.processes import owner_name, surely_gone
from discovery.server_status import SERVER_LEASE
from lr_server import Settings
from lrq.cli.peers import read_peers
from queues import send_snapshot
from queues.database import leases, servers
from queues.database.peers import read_table
from queues.database.transactions import reading, writing
from queues.errors import StoreUnavailableError, UsageError
from queues.names import SiteId
from queues.send_log import unordered
from queues.send_log.known_sites import read_known
from queues.send_log.opening import open_log, segment_reads
from queues.send_log.port import Retention, TrimResult
from queues.send_log.ring.member_rows import rank_at
from queues.send_log.trim_blockers import TrimBlocker
from queues.send_log.unknown import forget_dropped

#: Duration of the lease on the site, in seconds.
_TTL: Final = 60.0


def owner_of(engine: Engine) -> str:
    """Return the sequencer of the site, or else another server that works; an empty string if none works."""
    held = leases.holder(engine, SERVER_LEASE)
    if held is not None and not held.expired and not surely_gone(held.lease.owner):
        return held.lease.owner
    # A server without a sequencer soon takes the lease. Until then it must not find this command as an older lrq.
    working = (name for name in servers.look(engine).living if not surely_gone(name))
    return next(working, "")


def run(engine: Engine, settings: Settings, retention: Retention, *, rotate: bool) -> TrimResult:
    """Take the site's lease and trim as its server does; raises `StoreUnavailableError` if a server is faster.

    Raises `UsageError` for the file of a ring's member, where only the servers know which entries may go.
    """
    with reading(engine) as connection:
        if rank_at(connection) is not None:
            raise UsageError("the servers of a ring trim their files: set trim in the table [ring] of each")
    before = leases.holder(engine, SERVER_LEASE)
    if before and not before.expired and surely_gone(before.lease.owner):
        leases.release(engine, before.lease, seen_us=before.expires_us)
    lease = leases.acquire(engine, SERVER_LEASE, owner_name(), _TTL)
    if lease is None:
        raise StoreUnavailableError("a server has just taken the site: the server trims by itself")
    try:
        log = open_log(engine)
        log.rotate(lease, settings.segment_bytes, 0.0 if rotate else settings.segment_seconds)
        trimmed = log.trim(lease, retention)
        while True:
            with writing(engine) as connection:
                if not send_snapshot.collect_garbage(connection):
                    return trimmed
    finally:
        # The status names the last server of the site, and this command is none.
        leases.release(engine, lease, last_owner=before.lease.owner if before else "")


def decide_unordered(engine: Engine, *, send: bool, drop: bool) -> dict[str, int]:
    """Send or delete the unordered entries; return the numbers of entries sent and deleted."""
    return {"sent": unordered.send(engine) if send else 0, "deleted": unordered.drop(engine) if drop else 0}


def read_blockers(engine: Engine) -> Sequence[TrimBlocker]:
    """Return the transactions of others that keep trim from tables of the log."""
    with reading(engine) as connection:
        return segment_reads(connection).blockers(connection)


def recorded_ordering(engine: Engine) -> OrderingStatus:
    """Return the unordered entries and disabled triggers, as `read_status` does."""
    with reading(engine) as connection:
        return read_ordering(connection)


def recorded_unknown(engine: Engine) -> tuple[UnknownStatus, ...]:
    """Return the entries for unknown destinations, as `read_status` does."""
    with reading(engine) as connection:
        return read_unknown(connection)


def known_peers(engine: Engine, settings: Settings) -> frozenset[SiteId] | None:
    """Return the peers of the last server, of *settings* and of the table; None before the first server has worked.

    In doubt a site counts as a peer, so that its entries are kept. Raises the errors of `read_peers`.
    """
    with reading(engine) as connection:
        known, table_of_peers = read_known(connection), read_table(connection)
    if known is None:
        return None
    return known.peers.union(read_peers(settings, lambda: engine).peers, table_of_peers.by_site)


def forget_dropped_entries(engine: Engine) -> int:
    """Forget the counts of dropped entries; return the sum of them."""
    with writing(engine) as connection:
        return forget_dropped(connection)
