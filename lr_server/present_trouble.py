"""The reason why repeated work fails now."""

from queues.errors import LrqError
from queues.logs import EventLogger
from queues.words import in_words


class PresentTrouble:
    """The reason in words; empty while all is well."""

    def __init__(self, log: EventLogger, event: str, over: str = "") -> None:
        """Write *event* to *log* for each new reason, and *over*, if given, once the work succeeds again."""
        self._log = log
        self._event = event
        self._over = over
        self.reason = ""

    def note(self, error: BaseException) -> None:
        """Keep the reason of *error* until `end`, and log a new one; a bug is logged with its traceback."""
        reason = in_words(error)
        if reason != self.reason:
            is_bug = not isinstance(error, LrqError)
            self._log.warning(self._event, reason=reason, exc_info=is_bug and error)
        self.reason = reason

    def end(self) -> None:
        """Forget the reason, because the work has succeeded."""
        if self.reason and self._over:
            self._log.info(self._over)
        self.reason = ""
