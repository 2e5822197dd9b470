"""One look at PostgreSQL's send log, which tells the steps of trim that may have work.

A quiet server trims every few seconds. One message asks all questions, so an idle run costs little.
"""

from typing import Final, NamedTuple

from sqlalchemy import Connection, TextClause, text

from queues.database import dialects, leases
from queues.database.leases import Lease
from queues.database.postgresql import rewriting
from queues.database.tables.log import PARTITIONS
from queues.send_log import partitions
from queues.send_log.postgresql import tick_partitions

_CURRENT: Final = text("SELECT last_value FROM lrq_log_segment")
_FILLED: Final = text(partitions.FILLED)
_QUESTIONS: Final = (
    _CURRENT,
    _FILLED,
    text(tick_partitions.NEWEST),
    text(tick_partitions.LAST_TRIMMED),
    text(rewriting.SIZES),
)


class TrimLook(NamedTuple):
    """The steps of trim that may have work; the other steps would find nothing.

    `has_entries`: the log holds entries, perhaps unordered ones. `has_closed`: some are in closed segments.
    """

    has_entries: bool
    has_closed: bool
    has_old_ticks: bool
    is_bloated: bool
    trimmed_seq: int


def look(connection: Connection, lease: Lease) -> TrimLook:
    """Look at the log under *lease*; no statement follows in the transaction. Raises the errors of `leases.check`."""
    [(segment,)], filled, [newest], [(trimmed_seq, number)], sizes = _ask(connection, lease, _QUESTIONS)
    entries = {partition for (partition,) in filled}
    return TrimLook(
        bool(entries),
        bool(entries - {segment % PARTITIONS}),
        any(tick_partitions.is_old(each, tick_partitions.oldest_kept(number)) for each in newest),
        any(rewriting.is_bloated(size, rows) for size, rows in sizes),
        trimmed_seq,
    )


def is_current_filled(connection: Connection, lease: Lease) -> bool:
    """Tell whether the current segment has entries, so that a rotation is possible; raises as `look` does."""
    [(segment,)], filled = _ask(connection, lease, (_CURRENT, _FILLED))
    return (segment % PARTITIONS,) in filled


def _ask(connection: Connection, lease: Lease, questions: tuple[TextClause, ...]) -> list[list[tuple[int, ...]]]:
    statements = [leases.checking(connection, lease), *((each, {}) for each in questions)]
    checked, *answers = dialects.of(connection).run_all(connection, statements, last=True)
    leases.judge(lease, checked)
    return [[tuple(row) for row in rows] for rows in answers]
