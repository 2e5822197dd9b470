"""The transactions of others that keep trim from emptying the tables of a log."""

from collections.abc import Iterable
from typing import Final, NamedTuple

#: A usual backup is over by then.
LONG_SECONDS: Final = 3_600.0


class TrimBlocker(NamedTuple):
    """A transaction that has used tables of the log for minutes, so trim cannot empty these tables.

    `name` says in words where the transaction is, and `ending` is the SQL that ends it. `seconds` is its age, None
    where the role may not see that.
    """

    name: str
    ending: str
    seconds: float | None

    @property
    def cure(self) -> str:
        """The advice, in words."""
        return f"wait if it is a backup, otherwise end it with {self.ending}"

    @property
    def is_long(self) -> bool:
        """Whether the age is known, and a usual backup would be over."""
        return self.seconds is not None and self.seconds >= LONG_SECONDS


def long_ones(blockers: Iterable[TrimBlocker]) -> tuple[TrimBlocker, ...]:
    """Return those that a person should look at. Pure."""
    return tuple(each for each in blockers if each.is_long)
