"""Reading what negotiation needs to know, in one transaction each."""

from sqlalchemy import Connection, Engine, select, tuple_

from lr_server.histories import Branch, OfferedSnapshot, SinkHistory, SourceHistory, StagedSnapshot, TickKey
from queues import snapshots
from queues.log.port import Owed
from queues.log.sql import keep_ticks, newest_tick, trimmed_seq
from queues.positions import Position
from queues.tables import branches, sessions, ticks
from queues.transactions import reading
from queues.wire.replication_pb2 import NegotiateResponse


def source_history(engine: Engine, owed: Owed, sink: SinkHistory) -> SourceHistory:
    """Read what this source can offer the session."""
    with reading(engine, snapshot=True) as connection:
        keep_ticks(connection)
        newest = newest_tick(connection)
        trimmed = trimmed_seq(connection)
        history = tuple(
            Branch(row.branch, row.start_seq)
            for row in connection.execute(select(branches).order_by(branches.c.number))
        )
        return SourceHistory(
            branches=history,
            newest_seq=newest.end_seq if newest else history[-1].start_seq,
            trimmed_seq=trimmed,
            lost_seq=min(_lost_seq(connection, owed, trimmed), trimmed),
            known=_known(connection, sink.headers),
            snapshot=_offered(connection, owed),
        )


def _lost_seq(connection: Connection, owed: Owed, trimmed: int) -> int:
    mine = sessions.c.client == owed.client, sessions.c.destination == owed.destination
    found = connection.execute(select(sessions.c.lost_seq, sessions.c.acked_seq).where(*mine)).first()
    # What it has acknowledged was not kept for it: a sink that is put back behind that has lost it too.
    return trimmed if found is None else max(found)


def _known(connection: Connection, headers: tuple[TickKey, ...]) -> frozenset[TickKey]:
    keys = tuple_(ticks.c.branch, ticks.c.end_seq, ticks.c.uid)
    found = connection.execute(
        select(ticks.c.branch, ticks.c.end_seq, ticks.c.uid).where(keys.in_([tuple(header) for header in headers]))
    )
    return frozenset(TickKey(branch, seq, uid) for branch, seq, uid in found)


def _offered(connection: Connection, owed: Owed) -> OfferedSnapshot | None:
    newest = snapshots.newest(connection, owed.client, owed.destination)
    if newest is None or newest.finished:
        return None
    ready = newest.state is snapshots.SnapshotState.READY
    return OfferedSnapshot(newest.sync_id, ready, newest.base, newest.rows)


def sink_history(answer: NegotiateResponse) -> SinkHistory:
    """Read what the sink said; raise `ProtocolError` where it contradicts itself."""
    received = answer.received
    staging = answer.staging
    return SinkHistory(
        received=Position(received.branch, received.seq, received.cut),
        boundary_seq=answer.boundary.seq,
        applied_seq=answer.applied_seq,
        headers=tuple(TickKey(header.branch, header.end_seq, header.uid) for header in answer.headers),
        staged=StagedSnapshot(staging.sync_id, staging.rows) if staging.sync_id else None,
        sync_id=answer.sync_id,
        undoes=answer.undoes,
    )
