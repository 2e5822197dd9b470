"""The way of a source to its log: ordinary, or kept by the member of a ring."""

from collections.abc import Callable
from typing import NamedTuple

from sqlalchemy import Engine

from lr_server.session.snapshots import ShowSnapshot, as_stored
from queues.send_log.opening import CommitWatch, open_log, watch_commits
from queues.send_log.port import Log, TickLimits


class LogAccess(NamedTuple):
    """The way of a source to its log, which the source closes in ticks, or a member of a ring.

    `watch` tells whether another server, or the member, may have taken ticks. `generation` is the one that the member
    leads, and that sessions tell; 0 where the source takes the ticks, and sessions tell those of their leases. The
    log of a ring is trimmed if `trims` is set. `shown` returns a request for a snapshot as sessions may see it: a ring
    does not send every complete snapshot.
    """

    open: Callable[[Engine, TickLimits], Log]
    watch: Callable[[Engine], CommitWatch]
    generation: int = 0
    trims: bool = True
    shown: ShowSnapshot = as_stored


#: The log of an ordinary site.
ORDINARY = LogAccess(open_log, watch_commits)


class NewReleases:
    """Tells whether a member has released ticks since the last look. See `CommitWatch`."""

    def __init__(self, released: Callable[[], int]) -> None:
        self._released = released
        self._seen = -1

    def changed(self) -> bool:
        """See the port."""
        before, self._seen = self._seen, self._released()
        return self._seen != before

    def close(self) -> None:
        """Do nothing: the watch holds no connection."""
