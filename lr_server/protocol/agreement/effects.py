"""The effects that the machine asks the edge to carry out. Pure.

The edge carries out the effects of one step in their order, each one completely before the next. `KeepPromise`,
`KeepTicks`, `KeepStore` and `KeepRecord` are durable when they end. After a crash the member begins again from its
record. If an effect fails, the edge ends the member as after a crash.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import assert_never

from lr_server.protocol.agreement.history import TickMark
from lr_server.protocol.agreement.messages import RingMessage
from lr_server.protocol.agreement.record import MemberRecord, StoreId, with_store


class Disregard(StrEnum):
    """Every reason for which an event changes nothing."""

    NEVER_LEADS = "rank 2 never leads"
    HEARS_LEADER = "the leader is heard"
    NOT_LEVEL = "the member follows first, until its log is level with the leader's"
    LEADS = "the member leads already"
    LEADS_NOT = "the member does not lead"
    NO_PROPOSAL = "the member proposes no such generation"
    NOT_ITS_GENERATION = "the generation belongs to another member"
    OTHER_STORE = "the message comes from a store that does not count yet"
    EARLIER = "the message belongs to an earlier generation"
    HELD_ALREADY = "the follower had acknowledged these ticks before"
    NOTHING_NEW = "the tail brings no tick that is missing"
    ONE_IS_ENOUGH = "one follower is enough for the answers to producers"
    UNHEARD_ALREADY = "no leader was heard before"
    NEWCOMER = "a newcomer takes no part"
    NO_NEWCOMER = "the member is no newcomer"
    OTHER_COPY = "the answer belongs to another try of a newcomer"
    RETIRED = "the store is replaced"


@dataclass(frozen=True, slots=True)
class KeepPromise:
    """Write durably that the member has promised this generation."""

    generation: int


@dataclass(frozen=True, slots=True)
class KeepTicks:
    """Remove every tick after the number `after`, and write `ticks` there, durably, in one transaction."""

    after: int
    ticks: tuple[TickMark, ...]


@dataclass(frozen=True, slots=True)
class KeepStore:
    """Write durably that the member `rank` has this store, and no earlier one."""

    rank: int
    store: StoreId


@dataclass(frozen=True, slots=True)
class KeepRecord:
    """Write the record of a newcomer beside the copied ticks, durably, in one transaction."""

    record: MemberRecord


@dataclass(frozen=True, slots=True)
class SendMessage:
    """Send the message to the member `to`, with the rank and the store of this member."""

    to: int
    message: RingMessage


@dataclass(frozen=True, slots=True)
class Release:
    """Let sinks, producers and waits see the ticks up to this number."""

    upto: int


@dataclass(frozen=True, slots=True)
class Decline:
    """Refuse the entries before anything is stored; `leader` is the rank to ask instead, None if none is known."""

    leader: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class TryAfter:
    """Report `TryDue` after a random delay that grows with the attempts."""

    attempt: int


@dataclass(frozen=True, slots=True)
class Alarm:
    """Tell an operator: this member refuses to go on with a contradiction."""

    words: str


@dataclass(frozen=True, slots=True)
class Disregarded:
    """The event changes nothing, for the reason `why`."""

    why: Disregard


Durable = KeepPromise | KeepTicks | KeepStore | KeepRecord
RingEffect = Durable | SendMessage | Release | Decline | TryAfter | Alarm | Disregarded


def kept(record: MemberRecord, effect: Durable) -> MemberRecord:
    """Return the record after a durable effect."""
    match effect:
        case KeepPromise(generation=generation):
            return replace(record, promised=generation)
        case KeepTicks(after=after, ticks=ticks):
            return replace(record, history=record.history.until(after).followed_by(ticks))
        case KeepStore(rank=rank, store=store):
            return replace(record, stores=with_store(record.stores, rank, store))
        case KeepRecord(record=copied):
            return copied
        case _:
            assert_never(effect)
