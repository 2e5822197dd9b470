"""Requests that wait for their replies, and the replies, which each stream hears of together."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from queues.send_log.producers import Production
from queues.wire import ingest_pb2 as pb

#: The reply to a request; None if only a repeated request can tell the outcome.
Reply = pb.ProduceReply | None

#: The bytes that a message takes in memory beside its own.
MESSAGE_BYTES: Final = 128


class Slot:
    """The place of one request's reply in the order of its stream; `size` has the bytes of the request in memory."""

    __slots__ = ("is_settled", "reply", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.reply: Reply = None
        self.is_settled = False


#: Gives slots of one stream their replies, each slot once; for any thread.
Settle = Callable[[Sequence[tuple[Slot, Reply]]], None]


class Pending(NamedTuple):
    """A checked request without a reply yet; `settle` takes the reply for `slot`."""

    production: Production
    slot: Slot
    settle: Settle

    def without_entries(self) -> "Pending":
        """Return the request without its entries: once they are stored, the reply needs only its numbers."""
        key, sequence, _, process, first = self.production
        return Pending(Production(key, sequence, (), process, first), self.slot, self.settle)


def settle_all(replies: Iterable[tuple[Pending, Reply]]) -> None:
    """Pass *replies* on: each stream takes its own at once, so that it can send them in one message."""
    by_stream: defaultdict[Settle, list[tuple[Slot, Reply]]] = defaultdict(list)
    for pending, reply in replies:
        by_stream[pending.settle].append((pending.slot, reply))
    for settle, settled in by_stream.items():
        settle(settled)
