"""Slots for calls: how many a sink serves at one moment, in all and for each caller.

A call without a valid message gives up its slot after a time. So no caller takes the slots of all others.
"""

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Final, NamedTuple

from queues.clock import Clock

#: The log tells at most once in this time, in seconds, that callers are turned away.
NEWS_SECONDS: Final = 60.0


class CallLimits(NamedTuple):
    """The most calls at one moment, and the seconds until the first valid message of each.

    `what` and the settings stand in the sentences for a caller that is turned away.
    """

    total: int
    per_caller: int
    patience: float
    what: str
    raise_total: str = ""
    raise_per_caller: str = ""


def turned_away(taken: int, own: int, caller: str, limits: CallLimits) -> str:
    """Return why a call of *caller* gets no slot; empty if it gets one. Pure.

    *taken* is the number of all calls, and *own* the number of this caller's. An empty *caller* has no own limit.
    """
    if caller and own >= limits.per_caller:
        words = f"{caller} has {own} {limits.what} at this site, as many as one caller may have"
        return f"{words}: raise {limits.raise_per_caller} there" if limits.raise_per_caller else words
    if taken >= limits.total:
        words = f"this site has {taken} {limits.what}, as many as it serves at one moment"
        return f"{words}: raise {limits.raise_total} there" if limits.raise_total else words
    return ""


@dataclass(slots=True, eq=False)
class CallSlot:
    """The slot of one call; `end` ends the call from another thread. `session` has the client and the source."""

    caller: str
    end: Callable[[], None]
    since: float
    is_confirmed: bool = False
    session: tuple[str, str] = ("", "")

    def confirm(self, session: tuple[str, str] = ("", "")) -> None:
        """Keep the slot as long as the call lasts: a valid message of *session* has come."""
        self.session = session
        self.is_confirmed = True


class CallSlots:
    """The calls of one kind at a sink; any number of threads may share this object."""

    def __init__(self, limits: CallLimits, clock: Clock) -> None:
        """Begin with all slots free."""
        self.limits = limits
        self._clock = clock
        self._slots: set[CallSlot] = set()
        self._own: Counter[str] = Counter()
        self._told: float | None = None
        self._guard = threading.Lock()

    def enter(self, caller: str, end: Callable[[], None]) -> CallSlot | str:
        """Return a slot for a call of *caller*, or the sentence that turns the call away."""
        with self._guard:
            return self._entered(caller, end)

    def enter_before_silent(self, caller: str, end: Callable[[], None]) -> CallSlot | str:
        """Like `enter`, but above a limit the oldest call without a valid message ends, and yields its slot."""
        with self._guard:
            entered = self._entered(caller, end)
            if isinstance(entered, CallSlot) or (silent := self._oldest_silent(caller)) is None:
                return entered
            self._free(silent)
            entered = self._entered(caller, end)
        silent.end()
        return entered

    def _entered(self, caller: str, end: Callable[[], None]) -> CallSlot | str:
        refusal = turned_away(len(self._slots), self._own[caller], caller, self.limits)
        if refusal:
            return refusal
        slot = CallSlot(caller, end, self._clock.monotonic())
        self._slots.add(slot)
        self._own[caller] += 1
        return slot

    def _oldest_silent(self, caller: str) -> CallSlot | None:
        """Return the oldest call without a valid message: of *caller* where its own limit is reached."""
        is_own = bool(caller) and self._own[caller] >= self.limits.per_caller
        silent = (slot for slot in self._slots if not slot.is_confirmed and (slot.caller == caller or not is_own))
        return min(silent, key=attrgetter("since"), default=None)

    def is_news(self) -> bool:
        """Return True at most once in `NEWS_SECONDS`."""
        now = self._clock.monotonic()
        with self._guard:
            is_due = self._told is None or now - self._told >= NEWS_SECONDS
            if is_due:
                self._told = now
            return is_due

    def leave(self, slot: CallSlot) -> None:
        """Free *slot*. May be called twice."""
        with self._guard:
            self._free(slot)

    def _free(self, slot: CallSlot) -> None:
        if slot in self._slots:
            self._slots.remove(slot)
            self._own[slot.caller] -= 1
            if not self._own[slot.caller]:
                del self._own[slot.caller]

    def end_overdue(self) -> list[CallSlot]:
        """End the calls that have brought no valid message in time; return their slots, which the calls free later."""
        before = self._clock.monotonic() - self.limits.patience
        with self._guard:
            overdue = [slot for slot in self._slots if not slot.is_confirmed and slot.since <= before]
        for slot in overdue:
            slot.end()
        return overdue

    def end_session(self, session: tuple[str, str]) -> int:
        """End the calls of *session*, a client and a source; return their number."""
        with self._guard:
            own = [slot for slot in self._slots if slot.is_confirmed and slot.session == session]
        for slot in own:
            slot.end()
        return len(own)
