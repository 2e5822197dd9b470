"""Decide when the log tells of a trouble, such as that of a session: at once, then with long pauses. Pure."""

from collections.abc import Iterable
from typing import Final, Generic, TypeVar

#: The seconds between two reminders about one thing.
PAUSE: Final = 3_600.0

_Key = TypeVar("_Key", bound=tuple[str, ...])


class Reminders(Generic[_Key]):
    """Remembers when the things with a present trouble were told, each by its key."""

    def __init__(self) -> None:
        self._told: dict[_Key, float] = {}

    def due(self, found: Iterable[_Key], now: float) -> list[_Key]:
        """Return the ones of *found* to tell at *now* (seconds of any clock), and count them as told.

        A key that was not found is new when it comes again.
        """
        present = set(found)
        self._told = {owed: told for owed, told in self._told.items() if owed in present}
        due = sorted(owed for owed in present if owed not in self._told or now - self._told[owed] >= PAUSE)
        self._told |= dict.fromkeys(due, now)
        return due
