"""The right of a server to run a session: the lease of its range, and the branch of the log."""

import threading
from collections.abc import Callable, Mapping

from discovery.ranges import range_of
from lr_server.session.context import Leadership
from queues.database.leases import Lease
from queues.send_log.port import SessionKey


class SessionRights:
    """The leases of ranges that a server holds, and the branch that it has found.

    After each change of the ranges the branch is found again before a session begins.
    """

    def __init__(self, guard: threading.Lock, ranges: int, find_branch: Callable[[], str | None]) -> None:
        """Divide the sessions among *ranges*; *guard* is that of the running sessions."""
        self._guard = guard
        self._ranges = ranges
        self._find_branch = find_branch
        self._held: Mapping[int, Lease] = {}
        #: The number of changes of the ranges.
        self.changes = 0
        self._branch = ""
        self._is_branch_due = True

    def hold(self, held: Mapping[int, Lease]) -> None:
        """Lead the ranges *held* from now on."""
        with self._guard:
            self._held = dict(held)
            self.changes += 1
            self._is_branch_due = True

    def enter(self, branch: str) -> None:
        """Begin sessions on *branch* only."""
        with self._guard:
            self._branch = branch

    def lease_of(self, owed: SessionKey) -> Lease | None:
        """Return the lease under which this server leads the session; None if it does not."""
        return self._held.get(range_of(owed.client, owed.destination, self._ranges))

    def leadership(self, owed: SessionKey) -> Leadership | None:
        """Return the right to begin the session; None if there is none now. The caller holds the guard."""
        lease = self.lease_of(owed)
        # Sessions of an unknown branch wait: see `find_branch`.
        return None if lease is None or self._is_branch_due else Leadership(lease, self._branch)

    def find_branch(self) -> bool:
        """Find the log's branch after a change of ranges; return whether sessions may begin that could not before."""
        if not self._is_branch_due:
            return False
        self._is_branch_due = False
        try:
            is_known = self._find_branch() is not None
        except BaseException:
            self._is_branch_due = True
            raise
        # Without a branch the next turn looks again: a sequencer must adopt the database first.
        self._is_branch_due = self._is_branch_due or not is_known
        return is_known
