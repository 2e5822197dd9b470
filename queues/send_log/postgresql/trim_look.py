"""One look at PostgreSQL's send log, which tells the steps of trim that may have work.

A quiet server trims every few seconds. One message asks all questions, so an idle run costs little.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from sqlalchemy import Connection, text

from queues.database import dialects, leases
from queues.database.dialect import Statement
from queues.database.leases import Lease
from queues.database.postgresql import rewriting
from queues.database.tables.log import PARTITIONS
from queues.send_log import partitions, segments
from queues.send_log.postgresql import tick_partitions, unordered
from queues.send_log.rotation import SegmentLimits

_CURRENT: Final = text("SELECT last_value FROM lrq_log_segment")
_FILLED: Final = text(partitions.FILLED)
_NEWEST: Final = text(tick_partitions.NEWEST)
_LAST_TRIMMED: Final = text(tick_partitions.LAST_TRIMMED)
_SIZES: Final = text(rewriting.SIZES)
_END: Final = text(unordered.END)
_PLAN: Final = text(unordered.PLAN)
_HAS_NEW: Final = text(unordered.HAS_NEW)


class TrimLook(NamedTuple):
    """The steps of trim that may have work; the other steps would find nothing.

    `has_unordered`: of transactions from the given id up to `ended_upto`, some entry has no place in the order.
    """

    has_closed: bool
    has_old_ticks: bool
    is_bloated: bool
    trimmed_seq: int
    has_unordered: bool
    ended_upto: int


def look(connection: Connection, lease: Lease, first: int) -> TrimLook:
    """Look at the log under *lease*, and for unordered entries from the transaction id *first* on.

    No statement follows in the transaction. Raises the errors of `leases.check`.
    """
    # The settings of the plan hold for the rest of the transaction, so they and their question come last.
    questions: list[Statement] = [(each, {}) for each in (_CURRENT, _FILLED, _NEWEST, _LAST_TRIMMED, _SIZES, _END)]
    answers = _ask(connection, lease, [*questions, (_PLAN, {}), (_HAS_NEW, {"first": first})])
    [(segment,)], filled, [newest], [(trimmed_seq, number)], sizes, [(ended_upto,)], _plan, new = answers
    kept_from = tick_partitions.oldest_kept(number)
    return TrimLook(
        has_closed=any(partition != segment % PARTITIONS for (partition,) in filled),
        has_old_ticks=any(tick_partitions.is_old(each, kept_from) for each in newest),
        is_bloated=any(rewriting.is_bloated(size, rows) for size, rows in sizes),
        trimmed_seq=trimmed_seq,
        has_unordered=bool(new),
        ended_upto=ended_upto,
    )


def may_rotate(connection: Connection, lease: Lease, limits: SegmentLimits) -> bool:
    """Tell whether the current segment has entries, and has reached *limits*; otherwise as `look` does."""
    questions: list[Statement] = [(each, {}) for each in (_CURRENT, _FILLED, segments.READ_LENGTH)]
    [(segment,)], filled, [(opened_us, payload_bytes)] = _ask(connection, lease, questions)
    return (segment % PARTITIONS,) in filled and segments.is_due(opened_us, payload_bytes, limits)


def _ask(connection: Connection, lease: Lease, questions: Sequence[Statement]) -> list[list[tuple[int, ...]]]:
    statements = [leases.checking(connection, lease), *questions]
    checked, *answers = dialects.of(connection).run_all(connection, statements, last=True)
    leases.judge(lease, checked)
    return [[tuple(row) for row in rows] for rows in answers]
