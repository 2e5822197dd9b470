"""One stream of requests: read in one thread, and answered in order in another."""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from lr_server.ingest.pending import Reply, Slot
from queues.clock import Clock
from queues.produce_envelope import TOGETHER_REPLIES, requests_in, together
from queues.wire import ingest_pb2 as pb

#: A stream without a request and without an unanswered one ends after this time, in seconds. While few streams are
#: open, the time is `CALM_QUIET`. A large request may be on its way over a slow line.
QUIET: Final = 1.5
CALM_QUIET: Final = 60.0
#: The most unanswered requests of one stream, and their bytes. The server reads no further ones until then.
OUTSTANDING: Final = 1_024
OUTSTANDING_BYTES: Final = 8 * 1024 * 1024
#: The most requests of one message that are taken at once.
_AT_ONCE: Final = 256

#: Takes requests that came together, and their slots, which may grow now; settles each slot once, at any time.
Take = Callable[[Sequence[bytes], Sequence[Slot]], None]


class UnknownOutcomeError(Exception):
    """A request has no certain outcome, so the stream ends without an answer to it."""


class ProduceStream:
    """Reads messages with `read` in one thread, and yields their replies in another."""

    def __init__(self, clock: Clock, is_calm: Callable[[], bool], *, expects_large: bool = False) -> None:
        """Begin without a request; *is_calm* tells whether few streams are open.

        With *expects_large*, the request after the first message may be long on its way, as in calm times.
        """
        self._clock = clock
        self._is_calm = is_calm
        self._expects_large = expects_large
        self._slots: deque[Slot] = deque()
        self._size = 0
        self._changed = threading.Condition()
        # The most replies of one message: one until the producer has shown that it knows such messages.
        self._together = 1
        self._is_read = False
        self._is_over = False
        self._is_refused = False
        self._last_used = clock.monotonic()

    def read(self, messages: Iterable[bytes], take: Take) -> None:
        """Pass *messages* to *take* until they end, or the stream does."""
        is_first = True
        try:
            for message in messages:
                requests = requests_in(message)
                if requests and is_first:
                    self._together = TOGETHER_REPLIES
                self._expects_large = self._expects_large and is_first
                is_first = False
                for some in _parts(requests or (message,)):
                    slots = [Slot(len(request)) for request in some]
                    if not self._enter(slots):
                        return
                    take(some, slots)
                    self._grow(sum(slot.size for slot in slots) - sum(map(len, some)))
        finally:
            with self._changed:
                self._is_read = True
                self._changed.notify_all()

    def settle(self, replies: Sequence[tuple[Slot, Reply]]) -> None:
        """See `Settle`."""
        with self._changed:
            for slot, reply in replies:
                slot.reply, slot.is_settled = reply, True
                if _is_last(reply):
                    # The stream ends with this slot, so nothing more is taken from it.
                    self._is_refused = True
            # Only the first slot can go on.
            if self._slots and self._slots[0].is_settled:
                self._changed.notify_all()

    def replies(self) -> Iterator[pb.ProduceReply]:
        """Yield replies in the order of the requests; end after a refusal, the last request, or a quiet time.

        Replies that are ready at the same time are one message, if the producer knows such messages.
        Raises `UnknownOutcomeError` at the first request that stays without an answer.
        """
        try:
            while replies := self._next():
                known = [reply for reply in replies if reply is not None]
                if known:
                    yield together(known)
                if len(known) < len(replies):
                    raise UnknownOutcomeError
                if known[-1].HasField("refusal"):
                    return
        finally:
            self.end()

    def end(self) -> None:
        """End the stream: nothing further is read. May be called twice, from any thread."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def _enter(self, slots: Sequence[Slot]) -> bool:
        """Add *slots* once there is room for all; return False if the stream is over."""
        size = sum(slot.size for slot in slots)
        with self._changed:
            while (
                self._slots
                and not self._is_over
                and not self._is_refused
                and (len(self._slots) + len(slots) > OUTSTANDING or self._size + size > OUTSTANDING_BYTES)
            ):
                self._changed.wait()
            if self._is_over or self._is_refused:
                return False
            self._slots.extend(slots)
            self._size += size
            return True

    def _grow(self, size: int) -> None:
        """Note the growth of slots since `_enter`; some of them may have left."""
        with self._changed:
            self._size += size

    def _next(self) -> list[Reply]:
        """Return the replies of the first slots once they are settled; none at the end of the stream."""
        with self._changed:
            while True:
                replies = self._settled()
                if replies:
                    self._last_used = self._clock.monotonic()
                    self._changed.notify_all()
                    return replies
                if self._is_over or (self._is_read and not self._slots):
                    return []
                quiet = self._clock.monotonic() - self._last_used
                is_patient = self._expects_large or self._is_calm()
                if not self._slots and quiet >= (CALM_QUIET if is_patient else QUIET):
                    return []
                # Other streams may come meanwhile, so the limit is looked at again and again.
                self._changed.wait(None if self._slots else QUIET - quiet if quiet < QUIET else QUIET)

    def _settled(self) -> list[Reply]:
        """Remove the settled slots at the front, up to a refusal; return their replies."""
        replies: list[Reply] = []
        while self._slots and self._slots[0].is_settled and len(replies) < self._together:
            slot = self._slots.popleft()
            self._size -= slot.size
            replies.append(slot.reply)
            if _is_last(slot.reply):
                break
        return replies


def _is_last(reply: Reply) -> bool:
    """Return whether the stream ends after *reply*."""
    return reply is None or reply.HasField("refusal")


def _parts(requests: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    for begin in range(0, len(requests), _AT_ONCE):
        yield requests[begin : begin + _AT_ONCE]
