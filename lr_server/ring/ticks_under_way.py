"""The ticks that a slow line to another member carries already: a repeat would only delay the next ones. Pure.

A leader repeats unanswered ticks with each sign of life. On a slow line each repeat would stand behind the ones before.
"""

from dataclasses import dataclass
from typing import Final

from lr_server.protocol.agreement.messages import Append, RingMessage
from lr_server.protocol.slow_lines import SLOWEST

#: A line is slow if a message waits so many seconds for the end of its write.
SLOW: Final = 1.0
#: The longest time for which a written tick counts as under way, in seconds.
LONGEST: Final = 60.0


@dataclass(slots=True, eq=False)
class CarriedTicks:
    """The ticks of one message, under way before `until`. The time is infinite while the message waits."""

    generation: int
    first: int
    last: int
    size: int
    entered_at: float
    until: float = float("inf")


class TicksUnderWay:
    """Tells a repeat whose first tick is under way from other messages.

    A tick is under way from its entry until its write, and as long again. On a quick line that is a moment. A slow line
    still carries written bytes for long, so they get the time that the slowest line needs.
    """

    def __init__(self) -> None:
        self._carried: list[CarriedTicks] = []

    def __len__(self) -> int:
        """The number of messages that were under way at the last look, and of later ones."""
        return len(self._carried)

    def has(self, message: RingMessage, now: float) -> bool:
        """Return whether *message* repeats ticks whose first one is under way."""
        self._carried = [each for each in self._carried if now < each.until]
        if not isinstance(message, Append) or not message.ticks:
            return False
        first, generation = message.ticks[0].seq, message.generation
        return any(each.generation == generation and each.first <= first <= each.last for each in self._carried)

    def entered(self, carried: CarriedTicks) -> None:
        """Note a message that waits for its write."""
        self._carried.append(carried)

    def clear(self) -> None:
        """Forget all messages: the connection was lost."""
        self._carried.clear()


def carried_by(message: RingMessage, size: int, now: float) -> CarriedTicks | None:
    """Return the note of a message of *size* bytes that enters now; None if it has no ticks."""
    if not isinstance(message, Append) or not message.ticks:
        return None
    return CarriedTicks(message.generation, message.ticks[0].seq, message.ticks[-1].seq, size, now)


def note_write(carried: CarriedTicks | None, now: float) -> None:
    """Note that the message of *carried* is written."""
    if carried is not None:
        waited = now - carried.entered_at
        needed = max(waited, carried.size / SLOWEST) if waited >= SLOW else waited
        carried.until = now + min(needed, LONGEST)


def note_loss(carried: CarriedTicks | None) -> None:
    """Note that the message of *carried* is never written."""
    if carried is not None:
        carried.until = carried.entered_at
