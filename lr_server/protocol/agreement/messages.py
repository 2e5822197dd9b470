"""The messages between the members of a token. Pure.

A message may be lost, repeated, late, or overtaken by a later message. The edge tells the sender's rank and store with
each message.
"""

from dataclasses import dataclass

from lr_server.protocol.agreement.history import TickHistory, TickMark
from lr_server.protocol.agreement.record import StoreId


@dataclass(frozen=True, slots=True)
class Ballot:
    """The sender wants to lead `generation`; its log ends with `newest`."""

    generation: int
    newest: TickMark


@dataclass(frozen=True, slots=True)
class Promise:
    """The sender stores nothing of a generation below this one; `history` is its log."""

    generation: int
    history: TickHistory


@dataclass(frozen=True, slots=True)
class Denial:
    """The sender takes no part in `generation`; it has promised `promised`."""

    generation: int
    promised: int


@dataclass(frozen=True, slots=True)
class Fetch:
    """The sender begins `generation` and lacks the ticks after `after`."""

    generation: int
    after: TickMark


@dataclass(frozen=True, slots=True)
class Tail:
    """The answer to a `Fetch`: the ticks after `after`, as many as one message takes."""

    generation: int
    after: TickMark
    ticks: tuple[TickMark, ...]


@dataclass(frozen=True, slots=True)
class Append:
    """The leader's next ticks, which follow `previous`; without ticks, a sign of life.

    `newest` is the end of the leader's log. The leader has released the ticks up to `released`.
    """

    generation: int
    previous: TickMark
    ticks: tuple[TickMark, ...]
    newest: TickMark
    released: int


@dataclass(frozen=True, slots=True)
class TicksHeld:
    """The sender has the leader's ticks up to `upto` on its disk."""

    generation: int
    upto: TickMark


@dataclass(frozen=True, slots=True)
class TicksMissing:
    """The sender lacks the tick before an `Append`; `history` is its log."""

    generation: int
    history: TickHistory


@dataclass(frozen=True, slots=True)
class Register:
    """A newcomer asks the others to forget its member's earlier store and to count `store`."""

    store: StoreId


@dataclass(frozen=True, slots=True)
class Registered:
    """The answer to a `Register`, with the sender's record; the asked store counts if `stores` names it."""

    promised: int
    stores: tuple[StoreId, ...]
    history: TickHistory


@dataclass(frozen=True, slots=True)
class CopyRequest:
    """A registered newcomer asks for a copy of the sender's store."""


@dataclass(frozen=True, slots=True)
class StoreCopy:
    """A copy of the sender's store, for the newcomer with the store `receiver`."""

    receiver: StoreId
    promised: int
    stores: tuple[StoreId, ...]
    history: TickHistory


@dataclass(frozen=True, slots=True)
class Replaced:
    """The receiver's store counts no more: its member has the store `by`."""

    by: StoreId


RingMessage = (
    Ballot | Promise | Denial | Fetch | Tail | Append | TicksHeld | TicksMissing
    | Register | Registered | CopyRequest | StoreCopy | Replaced
)  # fmt: skip
