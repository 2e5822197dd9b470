"""Positions, ticks and their visibility (docs/design.md, "The tick"). Pure: no clock, no database."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

from queues.errors import InvalidPositionError

#: The most digits of a number that is read; Python refuses thousands of them with an error of its own.
_DIGITS: Final = 40


@dataclass(frozen=True, slots=True)
class PgSnapshot:
    """The PostgreSQL transactions that are visible: the parsed form of `xmin:xmax:xip,xip`.

    Invariant: `xmin <= x < xmax` for every x in `running`.
    """

    xmin: int
    xmax: int
    running: frozenset[int]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the text of `pg_current_snapshot()`; raise `InvalidPositionError` if it is malformed."""
        try:
            xmin, xmax, running = text.split(":")
            return cls(int(xmin), int(xmax), frozenset(int(x) for x in running.split(",") if x))
        except ValueError as error:
            raise InvalidPositionError(f"{text!r} is not a transaction snapshot (xmin:xmax:list)") from error

    def sees(self, xid: int) -> bool:
        """Return whether transaction *xid* had ended (committed or rolled back) when the snapshot was taken."""
        return xid < self.xmax and xid not in self.running

    def __str__(self) -> str:
        """Return the text that `parse` reads."""
        return f"{self.xmin}:{self.xmax}:{','.join(map(str, sorted(self.running)))}"


@dataclass(frozen=True, slots=True)
class Visibility:
    """The rows that a tick and all earlier ticks cover, in terms of the database.

    SQLite and memory: every row with `id <= high`. PostgreSQL: every row whose transaction is visible in `window`.

    If `upto` is not None, the tick is one of several that close a backlog. The tick then covers, of those rows, only
    the ones visible in `base` and the ones with `commit_seq <= upto`. For the last of several, `base` is `window`: such
    a tick covers all of those rows.
    """

    high: int = 0
    window: PgSnapshot | None = None
    base: PgSnapshot | None = None
    upto: int | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the text of `str()`; raise `InvalidPositionError` if it is malformed."""
        try:
            kind, _, rest = text.partition("/")
            if kind == "id":
                return cls(high=int(rest))
            window, base, upto = rest.split("/")
            return cls(
                window=PgSnapshot.parse(window),
                base=PgSnapshot.parse(base) if base else None,
                upto=int(upto) if upto else None,
            )
        except ValueError as error:
            raise InvalidPositionError(f"{text!r} is not the mark of a tick") from error

    @property
    def ends_window(self) -> bool:
        """Whether the tick covers its whole window, so that no other tick closes a later part of it."""
        return self.upto is None or self.base == self.window

    def covers(self, transaction: int, order: int) -> bool:
        """Return whether this tick or an earlier one covers the row of *transaction*.

        PostgreSQL: *transaction* is the row's xid and *order* its commit sequence. SQLite and memory: *transaction* is
        the row's id, and *order* is ignored.
        """
        if self.window is None:
            return transaction <= self.high
        if not self.window.sees(transaction):
            return False
        if self.upto is None or self.base is None:
            return True
        return self.base.sees(transaction) or order <= self.upto

    def surely_covers(self, transaction: int) -> bool:
        """Return `covers` for a row of unknown commit sequence; False if the answer depends on that sequence."""
        return self.covers(transaction, order=2**63 - 1)

    def __str__(self) -> str:
        """Return the text that `parse` reads."""
        if self.window is None:
            return f"id/{self.high}"
        base = "" if self.base is None else str(self.base)
        upto = "" if self.upto is None else str(self.upto)
        return f"xid/{self.window}/{base}/{upto}"


class Position(NamedTuple):
    """A place in one source's log: every entry of `branch` up to and including `seq` has been received.

    `cut`, if not empty, is the `Visibility` of a snapshot that the position comes from. Rows after `seq` that the cut
    covers are in that snapshot and are not sent again.
    """

    branch: str
    seq: int
    cut: str = ""

    def __str__(self) -> str:
        """Return the branch and the number, as `parse_position` reads them."""
        return f"{self.branch}@{self.seq}"


def is_number(text: str) -> bool:
    """Return whether *text* has digits only, and not more than a number of lrq can have."""
    return text.isascii() and text.isdecimal() and len(text) <= _DIGITS


def parse_position(text: str) -> Position:
    """Parse `<branch>@<number>`; raise `InvalidPositionError` if it is malformed."""
    branch, separator, number = text.rpartition("@")
    if not (branch and separator and is_number(number)):
        raise InvalidPositionError(f"{text!r} is not a position (<branch>@<number>)")
    return Position(branch, int(number))


#: The position before all entries, of no branch.
ORIGIN = Position("", 0)


@dataclass(frozen=True, slots=True)
class Tick:
    """One durable header that closes a group: all entries committed since the tick before.

    The rows have the sequence numbers `start_seq` + 1 to `end_seq`, without gaps between ticks. `bytes_total` counts
    payload bytes since the branch began.

    `is_large`: the tick holds one transaction above the limits. The rows are read and sent in pieces. With
    `omits_replaced` they are sent without replaced rows; ticks of earlier versions are sent with all rows.

    `uid` is random, so that two diverged databases never have equal headers by accident. `mark` is the text of the
    tick's `Visibility`.
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
    omits_replaced: bool = False

    @property
    def rows(self) -> int:
        """The number of entries, of all clients and destinations."""
        return self.end_seq - self.start_seq


class Header(NamedTuple):
    """The part of a tick that both sides keep; `mark` is the text of its `Visibility`."""

    branch: str
    seq: int
    uid: int
    mark: str


# As PostgreSQL writes a timeline in the names of its files.
_TIMELINE: Final = re.compile("[0-9a-f]{8}")


@dataclass(frozen=True, slots=True)
class PositionToken:
    """The result of `transmit`: it names a transaction before the commit, and is always truthy.

    `transaction` is PostgreSQL's transaction id; elsewhere it is the id of the last row written. `timeline` is empty
    unless PostgreSQL's timeline differs from the branch's: a promotion that no server has adopted yet.
    """

    site: str
    client: str
    branch: str
    transaction: int
    timeline: str = ""

    def __str__(self) -> str:
        """Return the text that `parse` reads."""
        text = f"{self.site}/{self.client}/{self.branch}/{self.transaction}"
        return f"{text}/{self.timeline}" if self.timeline else text

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the text of `str()`; raise `InvalidPositionError` if it is malformed."""
        parts = text.split("/")
        is_whole = len(parts) == 4 or (len(parts) == 5 and _TIMELINE.fullmatch(parts[4]))
        if not (is_whole and all(parts) and is_number(parts[3])):
            raise InvalidPositionError(
                f"{text!r} is not a position token (<site>/<client>/<branch>/<number>[/<timeline>])"
            )
        return cls(parts[0], parts[1], parts[2], int(parts[3]), *parts[4:])


def first_covering(marks: Iterable[Visibility], transaction: int, order: int) -> int | None:
    """Return the index of the first of *marks*, in tick order, that covers the row; None if none does."""
    for index, mark in enumerate(marks):
        if mark.covers(transaction, order):
            return index
    return None
