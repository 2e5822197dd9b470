"""Decide whether a server is ready, and whether its loops turn. Pure.

A server that is not ready shall get no traffic, and tells why. A server whose loops do not turn shall be restarted. A
database that does not answer makes a server unready, and no restart would mend that.
"""

import math
from collections.abc import Mapping
from typing import Final, NamedTuple

#: A loop that has not turned for this time, in seconds, while the database answers, is stuck.
STUCK_SECONDS: Final = 120.0
#: After this time without an answer of the database, in seconds, the last answer does not count any more.
ANSWER_SECONDS: Final = 10.0
#: The parts that a server cannot work without; other troubles are for monitors only.
_NEEDED: Final = ("sequencer", "follower", "sessions", "ingest", "sink", "descriptors", "threads", "sockets")


class DatabaseLook(NamedTuple):
    """The last complete look at the database: it began at `began`, in monotonic seconds, and found `trouble` if any.

    Looks without a trouble go back to `well_since` without a gap of `ANSWER_SECONDS`; infinite after a trouble.
    """

    began: float = -math.inf
    trouble: str = "the database has not been looked at yet"
    well_since: float = math.inf

    def next(self, began: float, trouble: str) -> "DatabaseLook":
        """Return the look that follows this one."""
        # In a longer gap the database did not answer, or the whole process stood still.
        is_gap = began - self.began > ANSWER_SECONDS
        since = began if is_gap else min(self.well_since, began)
        return DatabaseLook(began, trouble, math.inf if trouble else since)


def unready_parts(
    look: DatabaseLook, now: float, role: str, parts: Mapping[str, str], *, stopping: bool = False
) -> dict[str, str]:
    """Return one sentence for each reason why the server is not ready, by the part's name.

    *role* is the reason why the server takes no part in the work of its site. *parts* has the troubles of all parts.
    """
    silent = now - look.began
    if stopping:
        return {"server": "the server stops"}
    if look.trouble:
        database = look.trouble
    elif silent > ANSWER_SECONDS:
        cure = "look at the database and the network, unless this process stood still"
        database = f"the database has not answered for {silent:.0f} s: {cure}"
    else:
        database = ""
    found = {"database": database, "role": role} | {part: parts[part] for part in _NEEDED if part in parts}
    return {part: trouble for part, trouble in found.items() if trouble}


def stuck_loops(look: DatabaseLook, now: float, turns: Mapping[str, float]) -> dict[str, str]:
    """Return one sentence for each loop that has not turned for `STUCK_SECONDS`, by its name.

    *turns* has the last turn of each loop, in monotonic seconds; infinite while it waits for something else. The time
    counts only while the database answers.
    """
    if now - look.began > ANSWER_SECONDS:
        return {}
    still = {name: now - max(turned, look.well_since) for name, turned in turns.items()}
    return {
        name: f"this loop has not turned for {seconds:.0f} s, though the database answers: restart the server"
        for name, seconds in still.items()
        if seconds > STUCK_SECONDS
    }
