"""Why commits wait for synchronous standby servers, and how many of them are there. Pure."""

import re
from typing import Final, NamedTuple

#: A commit that waits no longer than this, in seconds, waits as usual.
USUAL_SECONDS: Final = 1.0
_NUMBER: Final = re.compile(r"\s*(?:(?:any|first)\s+)?(\d+)\s*\(", re.IGNORECASE)


def asked_for(setting: str) -> int:
    """Return the number of standbys that must have each commit, by PostgreSQL's setting `synchronous_standby_names`."""
    found = _NUMBER.match(setting)
    if found:
        return int(found[1])
    return 1 if setting.strip() else 0


class StandbyFacts(NamedTuple):
    """The synchronous standby servers of a primary.

    `asked`: the number that must have each commit. `present`: the number that is connected and follows, None if the
    role may not see that. `waiting_seconds`: the age of the oldest commit that waits for more than `USUAL_SECONDS`,
    among those that the role sees; 0.0 without one.
    """

    asked: int
    present: int | None
    waiting_seconds: float = 0.0

    @property
    def why_commits_wait(self) -> str:
        """A sentence with the cure if commits wait, or would wait now; otherwise empty."""
        if self.present is not None and self.present < self.asked:
            return (
                f"commits wait: {self.present} of the {self.asked} synchronous standby servers that "
                "synchronous_standby_names asks for are there: start one, or change the setting"
            )
        if self.waiting_seconds:
            return (
                f"commits wait for {self.waiting_seconds:.0f} s now, because too few of the synchronous standby "
                "servers answer: start one, or change synchronous_standby_names"
            )
        return ""
