"""Refuse a resend that begins or ends in a tick whose entries have other numbers at the site.

A snapshot contains some entries of the ticks around its cut. The site has no numbers for these entries, so it counts
the others of each such tick without them.
"""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import Engine

from queues import send_snapshot
from queues.database.transactions import reading
from queues.positions import Position, Tick, Visibility
from queues.send_log.opening import open_log
from queues.send_log.port import Log, LogRow, SessionKey, TickLimits
from queues.send_log.resend_rules import SeqRange, sent_rows

#: Each read is one tick.
_ONE: Final = TickLimits(1)


def refuse_divided(engine: Engine, key: SessionKey, wanted: SeqRange) -> str:
    """Return why a range of kept entries has other numbers at the site, or an empty text; raises `TrimmedError`."""
    with reading(engine) as connection:
        bases = [each for each in send_snapshot.applied_bases(connection, *key) if each.cut]
    log = open_log(engine)
    for seq in wanted:
        if not any(base.seq < seq for base in bases):
            continue
        [tick] = log.ticks_after(seq - 1, _ONE)
        cuts = [Visibility.parse(base.cut) for base in bases if _is_before(base, tick)]
        # The last number of a tick ends the range behind the whole tick.
        is_inside = seq == wanted.from_seq or seq < tick.end_seq
        if is_inside and cuts and _is_divided(log, key, tick, cuts):
            return (
                f"entries {tick.start_seq + 1:,} to {tick.end_seq:,} have other numbers at {key.destination}, because "
                "the cut of a snapshot divides them: begin and end the range outside of them, or name a time"
            )
    return ""


def _is_before(base: Position, tick: Tick) -> bool:
    # A cut counts on its own branch only.
    return base.branch == tick.branch and base.seq <= tick.start_seq


def _is_divided(log: Log, key: SessionKey, tick: Tick, cuts: Sequence[Visibility]) -> bool:
    return any(row.is_in(cut) for cut in cuts for row in _first_rows(log, key, tick))


def _first_rows(log: Log, key: SessionKey, tick: Tick) -> Sequence[LogRow]:
    if not tick.is_large:
        return sent_rows(log.read(key, [tick])[0])
    # One transaction, and on SQLite in the order of the ids. So a cut contains its first entry, or none.
    return next((piece.rows for piece in log.stream(key, tick, 0, _ONE)), ())
