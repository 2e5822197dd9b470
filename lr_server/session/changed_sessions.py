"""The sessions whose standing may have changed, so that a save need not read the standings of all sessions."""

from queues.send_log.port import SessionKey


class ChangedSessions:
    """Names each session whose standing may differ from the one that was saved. For any number of threads.

    Invariant: a thread changes the facts of a session first, and notes the session afterwards. So the facts that are
    read after `take` include the change, or a later `take` returns the session.
    """

    def __init__(self) -> None:
        self._noted: set[SessionKey] = set()
        self._written: set[SessionKey] = set()

    def note(self, owed: SessionKey) -> None:
        """Note that the facts of the session may have changed."""
        self._noted.add(owed)

    def note_written_row(self, owed: SessionKey) -> None:
        """Note that a transaction other than a save has written the session's row, so that the next save repeats it."""
        self._written.add(owed)
        self._noted.add(owed)

    def take(self) -> set[SessionKey]:
        """Return the noted sessions, and forget them."""
        return _emptied(self._noted)

    def take_written_rows(self) -> set[SessionKey]:
        """Return the sessions whose rows may differ from the last save, and forget them; call `take` first."""
        return _emptied(self._written)


def _emptied(noted: set[SessionKey]) -> set[SessionKey]:
    taken: set[SessionKey] = set()
    # Each `pop` is atomic, so a note of another thread meanwhile is never lost.
    while noted:
        taken.add(noted.pop())
    return taken
