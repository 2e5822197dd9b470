"""How a site stands, read from its database: the same for the server, the command line and a monitor.

Lag is what a sink has not acknowledged as durable, never what has not been sent (DESIGN 7).
"""

from typing import Any

from sqlalchemy import Connection, Engine, func, select

from lr_server.states import LEFT_OUT
from queues import snapshots
from queues.browse.entries import COUNTED
from queues.browse.log import waiting
from queues.clock import iso, now_us
from queues.log.sql import newest_tick, trimmed_seq
from queues.migrate import require
from queues.positions import Tick
from queues.receive.consuming import APPLIED_SEQ
from queues.snapshots.progress import cut_seconds, progress_of
from queues.tables import (
    consumer_failures,
    consumers,
    leases,
    parked_entries,
    receive_entries,
    receive_marks,
    receive_queues,
    sessions,
    ticks,
)
from queues.transactions import reading

#: A session that is behind and has not moved for so long is stalled, in seconds.
STALL_SECONDS = 60.0
_WITHOUT_CONNECTION = ("backing off", "negotiating", "failed", "stopped")


def read_status(engine: Engine) -> dict[str, Any]:
    """Return plain data: site, owner, log, sessions, snapshots, receive queues."""
    with reading(engine, snapshot=True) as connection:
        info = require(connection)
        newest = newest_tick(connection)
        return {
            "site": info.site_id,
            "at": iso(now_us()),
            "owners": _owners(connection),
            "log": {
                "branch": info.branch,
                "seq": newest.end_seq if newest else 0,
                "trimmed_seq": trimmed_seq(connection),
                "last_tick_at": iso(newest.created_us) if newest else None,
                # Counted up to a limit: without a server it only grows.
                "waiting": waiting(connection),
            },
            "sessions": [_session(connection, row, newest) for row in _sessions(connection)],
            "snapshots": [snapshot_facts(found) for found in snapshots.listing(connection, limit=20)],
            "receive_queues": [_receive(connection, row) for row in _receive_queues(connection)],
        }


def _owners(connection: Connection) -> list[dict[str, Any]]:
    now = now_us()
    return [
        {
            "lease": row.name,
            "owner": row.owner,
            "generation": row.generation,
            "alive": row.expires_us > now,
        }
        for row in connection.execute(select(leases).order_by(leases.c.name))
    ]


def _sessions(connection: Connection) -> Any:  # noqa: ANN401 - rows
    return connection.execute(select(sessions).order_by(sessions.c.destination, sessions.c.client)).all()


def _session(connection: Connection, row: Any, newest: Tick | None) -> dict[str, Any]:  # noqa: ANN401 - a row
    # Nothing is sent by it.
    lag = _lag(connection, row.acked_seq, None if row.state == LEFT_OUT else newest)
    # One that tries to connect changes its state again and again without getting on.
    is_stuck = row.state in _WITHOUT_CONNECTION or now_us() - row.updated_us > STALL_SECONDS * 1_000_000
    return {
        "client": row.client,
        "destination": row.destination,
        "state": row.state,
        "reason": row.reason,
        "branch": row.branch,
        "acked_seq": row.acked_seq,
        "lag": lag,
        "stalled": lag["entries"] > 0 and lag["seconds"] > STALL_SECONDS and is_stuck,
        "updated_at": iso(row.updated_us),
    }


def _lag(connection: Connection, acked_seq: int, newest: Tick | None) -> dict[str, Any]:
    """Return what lies after *acked_seq*: an upper bound, because it counts what others are owed too."""
    if newest is None or acked_seq >= newest.end_seq:
        return {"entries": 0, "bytes": 0, "seconds": 0.0}
    acked = select(ticks.c.bytes_total).where(ticks.c.end_seq <= acked_seq).order_by(ticks.c.end_seq.desc()).limit(1)
    first = select(ticks.c.created_us).where(ticks.c.end_seq > acked_seq).order_by(ticks.c.end_seq).limit(1)
    since = connection.execute(first).scalar() or newest.created_us
    return {
        "entries": newest.end_seq - acked_seq,
        "bytes": newest.bytes_total - (connection.execute(acked).scalar() or 0),
        "seconds": round(max(now_us() - since, 0) / 1_000_000, 3),
    }


def _progress_facts(found: snapshots.Snapshot) -> dict[str, Any]:
    now = now_us()
    progress, age = progress_of(found, now), cut_seconds(found, now)
    return {
        "expected_rows": found.expected_rows,
        "sent_rows": found.sent_rows if found.state is snapshots.SnapshotState.READY else 0,
        "share": progress and _rounded(progress.share, 4),
        "rows_per_second": progress and _rounded(progress.rows_per_second, 1),
        "seconds_left": progress and _rounded(progress.seconds_left, 1),
        "cut_seconds": _rounded(age, 1),
    }


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


def snapshot_facts(found: snapshots.Snapshot) -> dict[str, Any]:
    """Return one request for a snapshot as plain data."""
    return {
        "sync_id": found.sync_id,
        "client": found.client,
        "destination": found.destination,
        "state": found.state.value,
        "reason": found.reason,
        "attempt": found.attempt,
        "rows": found.rows,
        "bytes": found.bytes,
        "progress": found.progress,
        **_progress_facts(found),
        "error": found.error,
        "requested_at": iso(found.requested_us),
        "updated_at": iso(found.updated_us),
    }


def _receive_queues(connection: Connection) -> Any:  # noqa: ANN401 - rows
    joined = receive_queues.outerjoin(receive_marks, receive_marks.c.queue_id == receive_queues.c.queue_id).outerjoin(
        consumers, consumers.c.queue_id == receive_queues.c.queue_id
    )
    columns = (
        receive_queues,
        receive_marks.c.seq.label("received_seq"),
        receive_marks.c.boundary_seq,
        receive_marks.c.source_seq,
        receive_marks.c.staging_sync_id,
        receive_marks.c.staging_rows,
        receive_marks.c.sync_id,
        receive_marks.c.entries_total,
        receive_marks.c.duplicates_total,
        consumers.c.phase,
        APPLIED_SEQ.label("applied_seq"),
        consumers.c.applied_total,
    )
    return connection.execute(select(*columns).select_from(joined).order_by(receive_queues.c.name)).all()


def _receive(connection: Connection, row: Any) -> dict[str, Any]:  # noqa: ANN401 - a row
    left = select(receive_entries.c.committed_us).where(receive_entries.c.queue_id == row.queue_id)
    counted = select(func.count()).select_from(left.limit(COUNTED + 1).subquery())
    outstanding = connection.execute(counted).scalar_one()
    oldest = connection.execute(left.order_by(receive_entries.c.seq).limit(1)).scalar()
    failure = connection.execute(select(consumer_failures).where(consumer_failures.c.queue_id == row.queue_id)).first()
    parked = select(func.count()).select_from(parked_entries).where(parked_entries.c.queue_id == row.queue_id)
    return {
        "name": row.name,
        "client": row.client,
        "source": row.source,
        "received_seq": row.received_seq or 0,
        "source_seq": row.source_seq or 0,
        "applied_seq": row.applied_seq or 0,
        "phase": row.phase or "not subscribed",
        # Counted up to a limit: of a long backlog that would take as long as to read it.
        "outstanding": min(outstanding, COUNTED),
        "more": outstanding > COUNTED,
        "oldest_seconds": round((now_us() - oldest) / 1_000_000, 3) if oldest else 0.0,
        "received_total": row.entries_total or 0,
        "duplicates_total": row.duplicates_total or 0,
        "applied_total": row.applied_total or 0,
        "parked": connection.execute(parked).scalar_one(),
        "staging": {"sync_id": row.staging_sync_id, "rows": row.staging_rows} if row.staging_sync_id else None,
        "sync_id": row.sync_id or "",
        "failure": {"tries": failure.tries, "error": failure.error} if failure else None,
    }
