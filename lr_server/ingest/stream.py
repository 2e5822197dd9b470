"""One stream of requests: read in one thread, and answered in order in another."""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from queues.clock import Clock
from queues.produce_envelope import TOGETHER_REPLIES, requests_in, together
from queues.wire import ingest_pb2 as pb

#: A stream without a request and without an unanswered one ends after this time, in seconds.
QUIET: Final = 1.5
#: The most unanswered requests of one stream, and their bytes. The server reads no further ones until then.
OUTSTANDING: Final = 1_024
OUTSTANDING_BYTES: Final = 8 * 1024 * 1024

Settle = Callable[[pb.ProduceReply | None], None]


class UnknownOutcomeError(Exception):
    """A request has no certain outcome, so the stream ends without an answer to it."""


class _Slot:
    """The place of one request's reply in the order of the stream."""

    __slots__ = ("is_settled", "reply", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.reply: pb.ProduceReply | None = None
        self.is_settled = False


class ProduceStream:
    """Reads messages with `read` in one thread, and yields their replies in another."""

    def __init__(self, take: Callable[[bytes, Settle], None], clock: Clock) -> None:
        """Pass each request to *take*, with a function that settles the request once, from any thread."""
        self._take = take
        self._clock = clock
        self._slots: deque[_Slot] = deque()
        self._size = 0
        self._changed = threading.Condition()
        # The most replies of one message: one until the producer has shown that it knows such messages.
        self._together = 1
        self._is_read = False
        self._is_over = False
        self._is_refused = False
        self._last_used = clock.monotonic()

    def read(self, messages: Iterable[bytes]) -> None:
        """Take *messages* until they end, or the stream does."""
        is_first = True
        try:
            for message in messages:
                requests = requests_in(message)
                if requests and is_first:
                    self._together = TOGETHER_REPLIES
                is_first = False
                for request in requests or (message,):
                    slot = _Slot(len(request))
                    if not self._enter(slot):
                        return
                    self._take(request, self._settler(slot))
        finally:
            with self._changed:
                self._is_read = True
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

    def _enter(self, slot: _Slot) -> bool:
        """Add a slot once there is room; return False if the stream is over."""
        with self._changed:
            while (
                self._slots
                and not self._is_over
                and not self._is_refused
                and (len(self._slots) >= OUTSTANDING or self._size + slot.size > OUTSTANDING_BYTES)
            ):
                self._changed.wait()
            if self._is_over or self._is_refused:
                return False
            self._slots.append(slot)
            self._size += slot.size
            return True

    def _settler(self, slot: _Slot) -> Settle:
        def settle(reply: pb.ProduceReply | None) -> None:
            with self._changed:
                slot.reply, slot.is_settled = reply, True
                if reply is None or reply.HasField("refusal"):
                    # The stream ends with this slot, so nothing more is taken from it.
                    self._is_refused = True
                # Only the first slot can go on.
                if self._slots and self._slots[0] is slot:
                    self._changed.notify_all()

        return settle

    def _next(self) -> list[pb.ProduceReply | None]:
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
                if not self._slots and quiet >= QUIET:
                    return []
                self._changed.wait(None if self._slots else QUIET - quiet)

    def _settled(self) -> list[pb.ProduceReply | None]:
        """Remove the settled slots at the front, up to a refusal; return their replies."""
        replies: list[pb.ProduceReply | None] = []
        while self._slots and self._slots[0].is_settled and len(replies) < self._together:
            slot = self._slots.popleft()
            self._size -= slot.size
            replies.append(slot.reply)
            if slot.reply is None or slot.reply.HasField("refusal"):
                break
        return replies
