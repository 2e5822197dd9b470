"""The sessions whose standing may have changed, so that a save need not read the standings of all sessions."""

from queues.send_log.port import SessionKey


class ChangedSessions:
    """Names each session whose standing may differ from the one that was saved. For any number of threads.

    Invariant: a thread changes the facts of a session first, and notes the session afterwards. So the facts that are
    read after `take` include the change, or a later `take` returns the session.
    """

    def __init__(self) -> None:
        self._noted: set[SessionKey] = set()

    def note(self, owed: SessionKey) -> None:
        """Note that the facts of the session may have changed."""
        self._noted.add(owed)

    def take(self) -> set[SessionKey]:
        """Return the noted sessions, and forget them."""
        taken: set[SessionKey] = set()
        # Each `pop` is atomic, so a note of another thread meanwhile is never lost.
        while self._noted:
            taken.add(self._noted.pop())
        return taken
