"""A leader asks its followers whether it still leads, before it answers from its log alone."""

import threading
from collections.abc import Callable, Collection
from queue import Empty, SimpleQueue
from typing import Final, Protocol

from discovery.ring_status import RingStatus
from lr_server.ring.member_state import follows
from queues.clock import Clock
from queues.errors import LrqError
from queues.logs import logger

#: The longest wait for a follower, in seconds.
LONGEST_WAIT: Final = 5.0

log = logger("lrq.ring")


class AskedMember(Protocol):
    """The way to one other member."""

    def look(self) -> RingStatus:
        """Return the state of the other member now; raise `LrqError` if it does not tell."""
        ...


class LeadProof:
    """Asks other members, each in a thread of its own, and none that still owes an answer."""

    def __init__(self, others: Callable[[], Collection[AskedMember]], clock: Clock) -> None:
        """Ask the members that *others* returns."""
        self._others = others
        self._clock = clock
        self._guard = threading.Lock()
        self._asked: set[int] = set()

    def __call__(self, generation: int, timeout: float) -> bool:
        """Return whether a member tells that it follows *generation*, at a moment after the beginning of this call.

        Then no later generation has released a tick before that moment. The call takes *timeout* seconds at most.
        """
        until = self._clock.monotonic() + min(timeout, LONGEST_WAIT)
        answers: SimpleQueue[bool] = SimpleQueue()
        asked = [other for other in self._others() if self._begin(other)]
        for other in asked:
            arguments = (other, generation, answers)
            threading.Thread(target=self._ask, args=arguments, name="lrq-ring-proof", daemon=True).start()
        for _ in asked:
            try:
                if answers.get(timeout=max(until - self._clock.monotonic(), 0.0)):
                    return True
            except Empty:
                return False
        return False

    def _begin(self, other: AskedMember) -> bool:
        with self._guard:
            is_free = id(other) not in self._asked
            self._asked.add(id(other))
            return is_free

    def _ask(self, other: AskedMember, generation: int, answers: "SimpleQueue[bool]") -> None:
        proves = False
        try:
            proves = follows(other.look(), generation)
        except LrqError as error:
            log.debug("a member of the ring does not tell whom it follows", reason=str(error))
        finally:
            with self._guard:
                self._asked.discard(id(other))
            answers.put(proves)
