"""A clock that a test moves ahead."""

from queues.clock import SystemClock


class ShiftedClock(SystemClock):
    """The clock of this machine, ahead by the seconds that a test lets pass."""

    def __init__(self) -> None:
        self.shift = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.shift
