"""The last error of each failing periodic job."""

from queues.errors import LrqError
from queues.logs import logger
from queues.words import in_words

log = logger("lrq.source")


class JobTroubles:
    """The troubles by the jobs' names; empty while all is well. For several threads."""

    def __init__(self) -> None:
        self._present: dict[str, str] = {}

    @property
    def present(self) -> dict[str, str]:
        """The troubles now."""
        return dict(self._present)

    def note(self, name: str, error: Exception) -> None:
        """Keep the reason of a call of the job *name* that has failed until `end`, and log a new one."""
        reason = in_words(error)
        # A job of each second would otherwise fill the log while a database is away.
        if reason != self._present.get(name):
            is_bug = not isinstance(error, LrqError)
            log.warning("periodic work failed", job=name, reason=reason, exc_info=is_bug and error)
        self._present[name] = reason

    def end(self, name: str) -> None:
        """Forget the trouble of the job *name* after a call that succeeded."""
        if self._present.pop(name, None) is not None:
            log.info("periodic work succeeds again", job=name)
