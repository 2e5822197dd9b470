"""Predict the fate of each segment in a run of trim, and the reason. Changes nothing."""

from dataclasses import dataclass, replace
from enum import StrEnum

from sqlalchemy import Connection, Engine, func, select

from queues.counts import COUNTED, Count
from queues.database.tables.log import PARTITIONS
from queues.database.transactions import reading
from queues.send_log.opening import segment_reads
from queues.send_log.port import Retention, SessionKey
from queues.send_log.segments import Verdict


class Fate(StrEnum):
    """The fate of a segment in a run of trim."""

    #: All its destinations have its entries.
    FREE = "may go"
    #: Beyond retention: destinations that lack some of it need a full snapshot.
    LOST = "beyond retention"
    #: The segment has unordered entries, which no site gets, until an operator acts or retention ends.
    UNORDERED = "holds unordered entries"
    #: A destination lacks entries of the segment.
    KEPT = "kept"
    #: Every destination has its entries; `acknowledged_retention_seconds` keeps them for replays.
    REPLAYABLE = "kept for replays"
    #: An older segment is kept, and segments are trimmed in order.
    BEHIND = "behind one that is kept"
    #: Some entries are not in a tick yet.
    OPEN = "not in a tick yet"
    #: New entries go into this one.
    CURRENT = "current"


@dataclass(frozen=True, slots=True)
class SegmentPlan:
    """A segment with rows; `lacking` names the sessions that lack some of its entries.

    `unknown` names the destinations that lack some and are no peers. If a segment is kept and both are empty, a peer
    without a session needs the segment. `has_unordered`: the segment has unordered entries; False also if they do not
    matter for its fate.
    """

    partition: int
    fate: Fate
    rows: Count
    oldest_us: int
    lacking: tuple[SessionKey, ...]
    has_unordered: bool = False
    unknown: tuple[SessionKey, ...] = ()


def plan(engine: Engine, retention: Retention) -> list[SegmentPlan]:
    """Return the segments with rows, oldest first, each with its fate in a run of trim at this moment."""
    with reading(engine, snapshot=True) as connection:
        current = segment_reads(connection).current(connection)
        order = [(current + step) % PARTITIONS for step in range(1, PARTITIONS)]
        found: list[SegmentPlan] = []
        is_held_up = False
        for partition in [*order, current]:
            fate, verdict = (Fate.CURRENT, None) if partition == current else _fate(connection, partition, retention)
            if is_held_up and fate in (Fate.FREE, Fate.LOST):
                fate = Fate.BEHIND
            count, oldest_us = _content(connection, partition)
            if count.entries:
                is_held_up = is_held_up or fate not in (Fate.FREE, Fate.LOST)
                lacking, has_unordered = (verdict.laggards, verdict.has_unordered) if verdict else ((), False)
                unknown = tuple(claim.owed for claim in verdict.unknown) if verdict else ()
                found.append(SegmentPlan(partition, fate, count, oldest_us, lacking, has_unordered, unknown))
        return found


def _fate(connection: Connection, partition: int, retention: Retention) -> tuple[Fate, Verdict | None]:
    if not _content(connection, partition)[0].entries:
        return Fate.FREE, None
    verdict = segment_reads(connection).verdict
    at_worst = verdict(connection, partition, replace(retention, seconds=0.0, payload_bytes=0))
    if at_worst is None:
        return Fate.OPEN, None
    now = verdict(connection, partition, retention)
    if now is None:
        unclaimed = verdict(connection, partition, replace(retention, acknowledged_seconds=0.0))
        is_only_replayable = unclaimed is not None and not unclaimed.is_held
        return (Fate.REPLAYABLE if is_only_replayable else Fate.KEPT), at_worst
    if now.is_held:
        return Fate.UNORDERED, now
    return (Fate.LOST if now.laggards or now.unknown or now.has_unordered else Fate.FREE), now


def _content(connection: Connection, partition: int) -> tuple[Count, int]:
    """Count the rows of a segment, up to a limit; return the count and the time of the first row."""
    written = segment_reads(connection).written(partition)
    some = written.order_by(None).limit(COUNTED + 1).subquery()
    count = connection.execute(select(func.count()).select_from(some)).scalar_one()
    oldest = connection.scalar(written.limit(1))
    return Count(min(count, COUNTED), is_least=count > COUNTED), oldest or 0
