"""Decide when the log tells of a trouble of one destination: at once, then with long pauses. Pure."""

from collections.abc import Iterable
from typing import Final

from queues.send_log.port import SessionKey

#: The seconds between two reminders about one destination.
PAUSE: Final = 3_600.0


class Reminders:
    """Remembers when the destinations with a present trouble were told."""

    def __init__(self) -> None:
        self._told: dict[SessionKey, float] = {}

    def due(self, found: Iterable[SessionKey], now: float) -> list[SessionKey]:
        """Return the ones of *found* to tell at *now* (seconds of any clock), and count them as told.

        A destination that was not found is new when it comes again.
        """
        present = set(found)
        self._told = {owed: told for owed, told in self._told.items() if owed in present}
        due = sorted(owed for owed in present if owed not in self._told or now - self._told[owed] >= PAUSE)
        self._told |= dict.fromkeys(due, now)
        return due
