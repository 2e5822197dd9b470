"""What the sessions of a source have acknowledged, as marks that tell of any entry whether it is among it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, select

from queues.positions import Mark
from queues.tables import sessions, ticks


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """What one session has acknowledged: all that one of `marks` covers."""

    marks: tuple[Mark, ...] = ()

    @property
    def floor(self) -> int:
        """The first transaction (SQLite: row) that it may lack."""
        return max((_first_uncovered(mark) for mark in self.marks), default=0)

    def has(self, transaction: int, order: int) -> bool:
        """Tell whether it has an entry; see `Mark.covers`."""
        return any(mark.covers(transaction, order) for mark in self.marks)


#: What a destination without a session has.
NOTHING: Final = Acknowledged()


def acknowledged(connection: Connection) -> Mapping[tuple[str, str], Acknowledged]:
    """Return what each session of this source has acknowledged, by client and destination."""
    at: dict[int, tuple[Mark, ...]] = {}
    found: dict[tuple[str, str], Acknowledged] = {}
    for session in connection.execute(select(sessions)).all():
        if session.acked_seq not in at:
            at[session.acked_seq] = _mark_at(connection, session.acked_seq)
        cut = (Mark.parse(session.cut),) if session.cut else ()
        found[session.client, session.destination] = Acknowledged((*at[session.acked_seq], *cut))
    return found


def _mark_at(connection: Connection, seq: int) -> tuple[Mark, ...]:
    newest = select(ticks.c.mark).where(ticks.c.end_seq <= seq).order_by(ticks.c.number.desc()).limit(1)
    mark = connection.execute(newest).scalar()
    return () if mark is None else (Mark.parse(mark),)


def _first_uncovered(mark: Mark) -> int:
    if mark.window is None:
        return mark.high + 1
    window = mark.window if mark.upto is None or mark.base is None else mark.base
    return min((*window.running, window.xmax))
