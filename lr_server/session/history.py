"""Read the source's history of a negotiation from its database."""

from sqlalchemy import Connection, Engine

from lr_server.protocol.histories import Branch, OfferedSnapshot, SinkHistory, SourceHistory, TickKey
from lr_server.protocol.negotiation import FIRST_SNAPSHOT
from queues import send_snapshot
from queues.database.transactions import reading
from queues.lineage import TOLD_BRANCHES
from queues.replica_groups import group_of
from queues.send_log.history import branch_starts, known_ticks, lineage
from queues.send_log.port import SessionKey
from queues.send_log.reads import keep_ticks, newest_tick, trimmed_seq
from queues.send_log.replica_members import read_groups
from queues.send_log.sessions import find_session
from queues.send_log.strangers import is_whole
from queues.wire.replication_pb2 import BranchOrigin


def source_history(engine: Engine, owed: SessionKey, sink: SinkHistory) -> SourceHistory:
    """Read the source's history of a session in one transaction."""
    with reading(engine, snapshot=True) as connection:
        keep_ticks(connection)
        return history_within(connection, owed, sink)


def history_within(connection: Connection, owed: SessionKey, sink: SinkHistory) -> SourceHistory:
    """Read the source's history of a session in the caller's transaction, which keeps ticks and segments."""
    newest = newest_tick(connection)
    trimmed = trimmed_seq(connection)
    history = tuple(Branch(*start) for start in branch_starts(connection))
    return SourceHistory(
        branches=history,
        newest_seq=newest.end_seq if newest else history[-1].start_seq,
        trimmed_seq=trimmed,
        lost_seq=min(_lost_seq(connection, owed, trimmed), trimmed),
        known=frozenset(TickKey(*key) for key in known_ticks(connection, sink.headers)),
        snapshot=_offered(connection, owed),
        is_whole=is_whole(connection, owed),
        is_provided=send_snapshot.is_provided(connection, owed.client),
        is_member=group_of(owed.destination, read_groups(connection)) is not None,
        knows_cut=not sink.received.cut or send_snapshot.has_cut(connection, sink.sync_id, sink.received.cut),
        lacked_base=send_snapshot.lacked_base(connection, owed.client, owed.destination, sink.sync_id),
    )


def _lost_seq(connection: Connection, owed: SessionKey, trimmed: int) -> int:
    found = find_session(connection, owed)
    # The log keeps no acknowledged entry for the session: a restored sink may need such an entry again.
    return trimmed if found is None else max(found.lost_seq, found.acked_seq)


def _offered(connection: Connection, owed: SessionKey) -> OfferedSnapshot | None:
    newest = send_snapshot.newest(connection, owed.client, owed.destination)
    if newest is None or newest.finished:
        return None
    ready = newest.state is send_snapshot.SnapshotState.READY
    return OfferedSnapshot(newest.sync_id, ready, newest.base, newest.rows, newest.reason == FIRST_SNAPSHOT)


def told_branches(engine: Engine) -> list[BranchOrigin]:
    """Return the newest branches for the sink, oldest first."""
    with reading(engine) as connection:
        return [BranchOrigin(**origin._asdict()) for origin in lineage(connection)[-TOLD_BRANCHES:]]
