"""Read the status of each receive queue, with its shards."""

from collections.abc import Mapping

from sqlalchemy import Connection

from discovery.receive_status import FailureStatus, ReceivePhase, ReceiveQueueStatus, ShardStatus, StagingStatus
from queues.clock import seconds_since
from queues.counts import COUNTED
from queues.receive import failures, shard_marks
from queues.receive.consumer_marks import subscriber_lease
from queues.receive.queue_marks import QueueRow, backlog, every_queue


def read_receive_queues(connection: Connection, alive: Mapping[str, str]) -> tuple[ReceiveQueueStatus, ...]:
    """Return the status of every receive queue; *alive* has the owner of each living lease by its name."""
    return tuple(_receive(connection, row, alive) for row in every_queue(connection))


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
        oldest_seconds=seconds_since(oldest) if oldest else 0.0,
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
