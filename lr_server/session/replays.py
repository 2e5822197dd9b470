"""Answer a sink's order for a replay: find the tick, decide, and keep the entries, in one transaction."""

from typing import NamedTuple

from sqlalchemy import Connection, Engine

from lr_server.protocol.histories import SinkHistory, TickKey
from lr_server.protocol.negotiation import InitialSync
from lr_server.protocol.replays import OrderedReplay, ReplayTarget, refuse_replay
from lr_server.session.history import history_within
from queues.database.leases import Lease
from queues.database.servers import check_ranges
from queues.database.transactions import writing
from queues.positions import Position
from queues.send_log import sessions
from queues.send_log.commit_times import end_committed_since
from queues.send_log.history import branch_at, first_since, last_before
from queues.send_log.opening import segment_reads
from queues.send_log.port import SessionKey
from queues.send_log.reads import keep_ticks
from queues.send_log.replica_members import read_groups
from queues.send_log.replica_sets import regrouped_seq
from queues.wire.replication_pb2 import ReplayAnswer, TickHeader


class Replay(NamedTuple):
    """The answer to an order; the session has acknowledged only up to `back`, or nothing has changed (None)."""

    answer: ReplayAnswer
    back: Position | None


def answer_order(
    engine: Engine, owed: SessionKey, lease: Lease, sink: SinkHistory, order: OrderedReplay, initial_sync: InitialSync
) -> Replay:
    """Decide about *order*; if it is granted, the log keeps the entries for the session from the commit on.

    Raises `OwnershipLostError` if another server leads the range of *lease*, and `StoreUnavailableError`.
    """
    committed_seq = None if order.from_seq else end_committed_since(engine, order.since_us)
    with writing(engine) as connection:
        keep_ticks(connection)
        segment_reads(connection).keep(connection)
        check_ranges(connection, [lease])
        source = history_within(connection, owed, sink)
        found = _find(connection, owed, order, committed_seq)
        target = None if found is None else found[0]
        refusal = refuse_replay(source, sink, order, target, initial_sync=initial_sync)
        if refusal or found is None:
            return Replay(ReplayAnswer(order_id=order.order_id, refusal=refusal), None)
        _, header = found
        back = Position(header.branch, header.end_seq, sink.received.cut)
        sessions.go_back(connection, owed, back)
        return Replay(ReplayAnswer(order_id=order.order_id, after=header), back)


def _find(
    connection: Connection, owed: SessionKey, order: OrderedReplay, committed_seq: int | None
) -> tuple[ReplayTarget, TickHeader] | None:
    """Return the tick after which the ordered entries begin, also as the sink keeps it; None if there are none."""
    first_seq = order.from_seq
    if not first_seq:
        first = first_since(connection, order.since_us)
        ends = [each for each in (first.end_seq if first else None, committed_seq) if each is not None]
        if not ends:
            return None
        # The times of ticks also tell that trimmed entries are of that time.
        first_seq = min(ends)
    tick = last_before(connection, first_seq)
    groups = (name for name, members in read_groups(connection).items() if owed.destination in members)
    facts = branch_at(connection, first_seq), regrouped_seq(connection), next(groups, "")
    if tick is None:
        # No tick is kept before the first one.
        branch = branch_at(connection, 0)
        return ReplayTarget(TickKey(branch, 0, 0), *facts), TickHeader(branch=branch)
    header = TickHeader(
        branch=tick.branch, start_seq=tick.start_seq, end_seq=tick.end_seq, uid=tick.uid, mark=tick.mark
    )
    return ReplayTarget(TickKey(tick.branch, tick.end_seq, tick.uid), *facts), header
