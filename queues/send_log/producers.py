"""Store the requests of producers: each is one source transaction, and is stored once (docs/ingest.md).

The row of a producer in `lrq_producers` moves in the transaction of the request's entries. So the row alone decides
whether a request is new, however many servers and streams store requests of one producer.
"""

from collections.abc import Sequence
from enum import Enum, auto
from typing import Final, NamedTuple, Protocol

from queues.names import ClientName
from queues.positions import Position
from queues.send_log.outbox import NewEntry

#: The highest number of a request; databases have signed numbers of 64 bits.
MAX_SEQUENCE: Final = 2**63 - 1


class ProducerKey(NamedTuple):
    """A producer of one client's entries."""

    client: ClientName
    producer: str


class Production(NamedTuple):
    """A checked request: `sequence` numbers the requests of the producer from 1; 0 asks for the last number.

    `process` is the random number of the producer's process, and `first` its first sequence; both may be 0.
    """

    key: ProducerKey
    sequence: int
    entries: Sequence[NewEntry]
    process: int = 0
    first: int = 0

    @property
    def may_follow(self) -> bool:
        """Whether the request may follow one of another process: the first one may, and those without a process."""
        return not self.process or self.first == self.sequence


class Last(NamedTuple):
    """The last stored request of a producer, and the token of its transaction; 0 and empty if there is none.

    `process` stored all requests from `first` to the last one. `request` is the number of this one in its transaction.
    """

    sequence: int
    token: str
    process: int = 0
    first: int = 0
    request: int = 0

    def after(self, asked: Production, token: str, request: int = 0) -> "Last":
        """Return the last request once *asked* is stored."""
        first = self.first if asked.process == self.process else asked.sequence
        return Last(asked.sequence, token, asked.process, first, request)


#: The standing of a producer without a stored request.
NO_REQUEST: Final = Last(0, "")


class RequestVerdict(Enum):
    """The relation of a request to the last stored one of its producer."""

    STORED = auto()
    REPEATED = auto()
    GAP = auto()
    TAKEN = auto()
    ASKED = auto()
    REFUSED = auto()
    UNKNOWN = auto()

    @property
    def is_new(self) -> bool:
        """Whether the request was stored just now."""
        return self is RequestVerdict.STORED


class StoreOutcome(NamedTuple):
    """The result of one request.

    STORED: `last` is the request itself, now committed. REPEATED, GAP, TAKEN, ASKED: nothing was stored, and `last` is
    the last stored request. REFUSED: nothing was stored, for the `reason`. UNKNOWN: the commit failed with `reason`,
    but may have happened.

    `position` is the place of the last entry of `last`, if that is known and durable.
    """

    verdict: RequestVerdict
    last: Last = NO_REQUEST
    reason: str = ""
    position: Position | None = None


class Place(NamedTuple):
    """Whether a transaction is durable, and the place of its last entry; None if that is not known any more.

    `is_lost`: the database has no such transaction any more, after a crash or a promotion.
    """

    is_durable: bool
    position: Position | None = None
    is_lost: bool = False


class Store(Protocol):
    """Stores requests of producers; only `places` is for several threads."""

    def store(self, requests: Sequence[Production], created_us: int) -> list[StoreOutcome]:
        """Store each of *requests* as a transaction for its receivers, in order; return the result of each.

        Raises `StoreUnavailableError` if nothing was stored.
        """
        ...

    @property
    def is_durable_at_once(self) -> bool:
        """Whether outcomes are durable when `store` returns, with their positions; otherwise the next tick decides."""
        ...

    def places(self, asked: Sequence[tuple[ProducerKey, Last]]) -> list[Place]:
        """Return where the last entry of each request stands that a producer has stored, in order; for any thread.

        The caller asks for a limited number of at least one request.
        """
        ...

    def close(self) -> None:
        """Release the connection; the next use opens another."""
        ...


def has_kept(now: Last, last: Last) -> bool:
    """Return whether a database whose last request is *now* still has the stored request *last*. Pure.

    Later requests of the same process follow those that are kept. Another transaction means that the number was lost.
    """
    if now.sequence == last.sequence:
        return now == last
    return now.process == last.process and now.first <= last.sequence < now.sequence


def decide(last: Last, request: Production) -> RequestVerdict:
    """Return the verdict on *request* after the stored request *last*. Pure; STORED: store it now.

    TAKEN: another process of the same name has stored this number, or one between the requests of this process. So
    late requests of an ended process are never mixed with others.
    """
    sequence = request.sequence
    is_mine = request.process in (0, last.process)
    if sequence == 0:
        has_begun = bool(request.process) and 0 < request.first <= last.sequence
        return RequestVerdict.TAKEN if has_begun and not is_mine else RequestVerdict.ASKED
    if sequence <= last.sequence:
        is_repeated = not request.process or (is_mine and sequence >= last.first)
        return RequestVerdict.REPEATED if is_repeated else RequestVerdict.TAKEN
    if sequence > last.sequence + 1:
        return RequestVerdict.GAP
    may_follow = is_mine or request.may_follow or not last.sequence
    return RequestVerdict.STORED if may_follow else RequestVerdict.TAKEN
