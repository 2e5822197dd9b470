"""Why the work of a transmitter fails now, and the lines of the log about it."""

from queues.clock import Clock
from queues.failure_log import FailureLog
from queues.logs import EventLogger
from queues.words import in_words


class WorkTrouble:
    """The reason in words, empty while all is well; the log tells each row of failures, and its end."""

    def __init__(self, log: EventLogger, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._failures = FailureLog()
        self.reason = ""

    def note(self, failure: Exception) -> None:
        """Keep the reason of *failure*."""
        self.reason = in_words(failure)
        row = self._failures.note("", self.reason, self._clock.monotonic())
        if row is not None:
            self._log.warning(
                "snapshot transmitter cannot work", error=self.reason, failures=row.failures, seconds=row.seconds
            )

    def end(self) -> None:
        """Forget the reason, because the work has succeeded."""
        self.reason = ""
        row = self._failures.end("", self._clock.monotonic())
        if row is not None:
            self._log.info("snapshot transmitter works again", failures=row.failures, seconds=row.seconds)
