"""The time since which a member of a ring knows no leader that takes entries."""

from lr_server.protocol.agreement.answers import missed_followers
from lr_server.protocol.agreement.roles import RingMember
from lr_server.ring.member_state import known_leader
from queues.clock import Clock


class FencedSince:
    """Follows the states of one member, which begins without a leader."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        #: The beginning, in microseconds since 1970; 0 while a leader takes entries, as far as the member knows.
        self.us = clock.now_us()

    def note(self, member: RingMember | None) -> None:
        """Take the state after a step; None while the member begins again."""
        if member is not None and known_leader(member) is not None and not missed_followers(member):
            self.us = 0
        elif not self.us:
            self.us = self._clock.now_us()
