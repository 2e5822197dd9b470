"""Positions, ticks and what a tick covers (DESIGN 2). Pure: no clock, no database."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, Self

from queues.errors import InvalidPositionError


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Which PostgreSQL transactions are visible: the parsed form of `xmin:xmax:xip,xip`.

    Invariant: `xmin <= x < xmax` for every x in `running`.
    """

    xmin: int
    xmax: int
    running: frozenset[int]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read what `pg_current_snapshot()::text` printed; raise `InvalidPositionError` for anything else."""
        try:
            xmin, xmax, running = text.split(":")
            return cls(int(xmin), int(xmax), frozenset(int(x) for x in running.split(",") if x))
        except ValueError as error:
            raise InvalidPositionError(f"{text!r} is not a transaction snapshot (xmin:xmax:list)") from error

    def sees(self, xid: int) -> bool:
        """Tell whether transaction *xid* had committed (or rolled back) when this was taken."""
        return xid < self.xmax and xid not in self.running

    def __str__(self) -> str:
        """Return the text that `parse` reads."""
        return f"{self.xmin}:{self.xmax}:{','.join(map(str, sorted(self.running)))}"


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a tick reaches, in the terms of its database.

    SQLite and memory: every row with `id <= high`. PostgreSQL: every row whose transaction is visible in
    `window`; and, where a backlog was closed in several ticks (`upto` is not None), only those rows that
    were visible in `base` already or have `commit_seq <= upto`.
    """

    high: int = 0
    window: Snapshot | None = None
    base: Snapshot | None = None
    upto: int | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read what `str()` wrote; raise `InvalidPositionError` for anything else."""
        try:
            kind, _, rest = text.partition("/")
            if kind == "id":
                return cls(high=int(rest))
            window, base, upto = rest.split("/")
            return cls(
                window=Snapshot.parse(window),
                base=Snapshot.parse(base) if base else None,
                upto=int(upto) if upto else None,
            )
        except ValueError as error:
            raise InvalidPositionError(f"{text!r} is not the mark of a tick") from error

    def covers(self, transaction: int, order: int) -> bool:
        """Tell whether the row of *transaction* is in this tick or an earlier one.

        *order* is the row's commit sequence on PostgreSQL; elsewhere it is not looked at and *transaction* is
        the row's id.
        """
        if self.window is None:
            return transaction <= self.high
        if not self.window.sees(transaction):
            return False
        if self.upto is None or self.base is None:
            return True
        return self.base.sees(transaction) or order <= self.upto

    def surely_covers(self, transaction: int) -> bool:
        """Like `covers` for a row whose commit sequence is not known; False where only that would tell."""
        return self.covers(transaction, order=2**63 - 1)

    def __str__(self) -> str:
        """Return the text that `parse` reads."""
        if self.window is None:
            return f"id/{self.high}"
        base = "" if self.base is None else str(self.base)
        upto = "" if self.upto is None else str(self.upto)
        return f"xid/{self.window}/{base}/{upto}"


class Position(NamedTuple):
    """A place in one source's log: all that `branch` numbered up to and with `seq` has been seen.

    `cut`, when not empty, is the `Mark` of the snapshot the position stems from: rows after `seq` that the cut
    covers are part of that snapshot and are not sent again.
    """

    branch: str
    seq: int
    cut: str = ""


#: Before everything; no history is known.
ORIGIN = Position("", 0)


@dataclass(frozen=True, slots=True)
class Tick:
    """One durable header that closes a group: every entry committed since the last one.

    `start_seq < seq of its rows <= end_seq`, gapless over ticks; `bytes_total` counts payload bytes since the
    branch began. `is_large`: it holds one transaction above the limits, which is read and sent in pieces, and of
    which every entry is sent, whatever its item key. `uid` is random, so that two databases that diverged never share
    a header by accident.
    """

    number: int
    uid: int
    branch: str
    start_seq: int
    end_seq: int
    bytes_total: int
    is_large: bool
    mark: str
    created_us: int

    @property
    def rows(self) -> int:
        """How many entries it holds, of all clients and destinations."""
        return self.end_seq - self.start_seq


class Header(NamedTuple):
    """What both sides keep of a tick."""

    branch: str
    seq: int
    uid: int
    mark: str


@dataclass(frozen=True, slots=True)
class PositionToken:
    """Names a transaction before it commits: what `transmit` returns (always truthy).

    `transaction` is PostgreSQL's transaction id, elsewhere the id of the last row written.
    """

    site: str
    client: str
    branch: str
    transaction: int

    def __str__(self) -> str:
        """Return a text that `parse` reads."""
        return f"{self.site}/{self.client}/{self.branch}/{self.transaction}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Undo `str()`; raise `InvalidPositionError` for anything else."""
        parts = text.split("/")
        if len(parts) != 4 or not all(parts) or not parts[3].isdecimal():
            raise InvalidPositionError(f"{text!r} is not a position token (<site>/<client>/<branch>/<number>)")
        return cls(parts[0], parts[1], parts[2], int(parts[3]))


def first_covering(marks: Iterable[Mark], transaction: int, order: int) -> int | None:
    """Return the index of the first of *marks* (in tick order) that covers the row; None if none does."""
    for index, mark in enumerate(marks):
        if mark.covers(transaction, order):
            return index
    return None
