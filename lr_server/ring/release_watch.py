"""The last state of a member, and waits until the requests of a tick may be answered."""

import threading

from lr_server.protocol.agreement.answers import may_answer, missed_followers
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

    def await_answerable(self, tick: TickMark, timeout: float) -> bool:
        """Wait until the requests of this member's *tick* may be answered; return False if that is not known.

        A wait also ends after *timeout* seconds, and once a needed follower is silent. The same is true once the member
        no longer leads the generation of the tick. After False a later leader may release the tick or replace it.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: _is_answerable(self.member, tick) or not _hopes(self.member, tick.generation), max(timeout, 0.0)
            )
            return _is_answerable(self.member, tick)


def _is_answerable(member: RingMember | None, tick: TickMark) -> bool:
    return member is not None and may_answer(member, tick)


def _hopes(member: RingMember | None, generation: int) -> bool:
    """Return whether *member* may soon be able to answer the requests of its *generation*."""
    if member is None or not isinstance(member.role, Leading):
        return False
    return member.role.generation == generation and not missed_followers(member)
