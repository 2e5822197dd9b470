"""The last state of a member, and waits for the release of a tick."""

import threading

from lr_server.protocol.agreement.effects import Decline
from lr_server.protocol.agreement.events import EntriesOffered
from lr_server.protocol.agreement.history import TickMark
from lr_server.protocol.agreement.machine import advance
from lr_server.protocol.agreement.roles import Leading, RingMember


class ReleaseWatch:
    """Holds the state of a member after its last step, for any number of threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        #: The member after its last step; None before the first one, and after the end.
        self.member: RingMember | None = None

    def note(self, member: RingMember | None) -> None:
        """Take the state of the member after a step, or None at its end."""
        with self._changed:
            self.member = member
            self._changed.notify_all()

    def declined(self) -> Decline | None:
        """Return why the member takes no entries now; None if it leads and takes them."""
        member = self.member
        if member is None:
            return Decline(None, "the member of this token begins again, or has ended")
        _, effects = advance(member, EntriesOffered())
        return next((effect for effect in effects if isinstance(effect, Decline)), None)

    def await_release(self, tick: TickMark, timeout: float) -> bool:
        """Wait until the *tick* of this member is released; return False if that is not known.

        The wait ends at the release, and after *timeout* seconds. The wait also ends once the member no longer leads
        the generation of the tick. After False a later leader may release the tick or replace it.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: is_released(self.member, tick) or not _leads(self.member, tick.generation), max(timeout, 0.0)
            )
            return is_released(self.member, tick)


def is_released(member: RingMember | None, tick: TickMark) -> bool:
    """Return whether *member* knows that the tick is released. Pure."""
    return member is not None and member.released >= tick.seq and member.record.history.holds(tick)


def _leads(member: RingMember | None, generation: int) -> bool:
    return member is not None and isinstance(member.role, Leading) and member.role.generation == generation
