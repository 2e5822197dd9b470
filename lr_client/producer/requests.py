"""The requests of one producer without an answer, in the order of submission. Pure."""

from collections import deque
from dataclasses import dataclass
from typing import Final


@dataclass(slots=True, eq=False)
class PendingRequest:
    """One request until its answer. `number` is 0 before the first write. A caller waits for an awaited one."""

    key: int
    content: bytes
    number: int = 0
    is_doubtful: bool = False
    is_awaited: bool = True


#: Written first on each stream: the question for the last number.
QUESTION: Final = PendingRequest(-1, b"")


class PendingRequests:
    """First the requests with numbers, then those that wait for a number, and the bytes of all."""

    def __init__(self, max_requests: int, max_bytes: int) -> None:
        """Hold at most *max_requests*, and *max_bytes* in all; a single request may be larger."""
        self.numbered: deque[PendingRequest] = deque()
        self.waiting: deque[PendingRequest] = deque()
        self.max_requests: Final = max_requests
        self._max_bytes = max_bytes
        self._bytes = 0

    @property
    def count(self) -> int:
        """The number of requests without an answer."""
        return len(self.numbered) + len(self.waiting)

    def has_room(self, size: int) -> bool:
        """Return whether a request of *size* bytes may be submitted now."""
        return not self.count or (self.count < self.max_requests and self._bytes + size <= self._max_bytes)

    def submit(self, key: int, content: bytes) -> None:
        """Take a request; the caller has checked `has_room` and the machine's `end`."""
        self.waiting.append(PendingRequest(key, content))
        self._bytes += len(content)

    def are_awaited(self) -> bool:
        """Return whether a stream is needed for a request."""
        return bool(self.waiting) or any(each.is_awaited for each in self.numbered)

    def await_again(self) -> list[int]:
        """Await all requests whose outcome is unknown; return their keys."""
        again = [each for each in self.numbered if not each.is_awaited]
        for each in again:
            each.is_awaited = True
        return [each.key for each in again]

    @property
    def bytes(self) -> int:
        """The bytes of all requests."""
        return self._bytes

    def after(self, written: int) -> PendingRequest | None:
        """Return the request behind the first *written* ones, which have numbers."""
        if written < len(self.numbered):
            return self.numbered[written]
        return self.waiting[0] if self.waiting else None

    def number_next(self, number: int) -> None:
        """Give *number* to the first waiting request."""
        request = self.waiting.popleft()
        request.number = number
        self.numbered.append(request)

    def doubt(self) -> None:
        """Note that every request with a number may be stored."""
        for each in self.numbered:
            each.is_doubtful = True

    def unnumber(self) -> None:
        """Let the requests without doubt wait again, in their order; those that stay are in doubt.

        A number that was told as unknown stays, and so do the numbers before. With a first one in doubt, all stay.
        The site may have stored that one before, and then others behind it now.
        """
        may_follow = bool(self.numbered) and self.numbered[0].is_doubtful
        while not may_follow and self.numbered and self.numbered[-1].is_awaited and not self.numbered[-1].is_doubtful:
            request = self.numbered.pop()
            request.number = 0
            self.waiting.appendleft(request)
        self.doubt()

    def pop_first(self) -> PendingRequest:
        """Remove the first request, which has a number."""
        request = self.numbered.popleft()
        self._bytes -= len(request.content)
        return request

    def withdraw(self, key: int) -> bool:
        """Remove the waiting request *key*; return False if there is none."""
        for each in self.waiting:
            if each.key == key:
                self.waiting.remove(each)
                self._bytes -= len(each.content)
                return True
        return False

    def forget_waiting(self) -> None:
        """Remove the requests without numbers."""
        self._bytes -= sum(len(each.content) for each in self.waiting)
        self.waiting.clear()

    def forget_all(self) -> None:
        """Remove all requests."""
        self.numbered.clear()
        self.waiting.clear()
        self._bytes = 0
