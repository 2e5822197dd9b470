"""The states of one member of a token. Pure."""

from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from lr_server.protocol.agreement.effects import (
    Disregard,
    Disregarded,
    Durable,
    RingEffect,
    SendMessage,
    kept,
)
from lr_server.protocol.agreement.history import TickMark
from lr_server.protocol.agreement.messages import Registered, RingMessage
from lr_server.protocol.agreement.record import UNKNOWN_STORE, MemberRecord, StoreId, with_store


@dataclass(frozen=True, slots=True)
class Newcomer:
    """The store is empty or not proven. The member asks both others for all that its earlier store may have held."""

    answers: tuple[Registered | None, ...] = (None, None, None)


@dataclass(frozen=True, slots=True)
class Following:
    """The member stores the ticks of the promised generation.

    `hears`: its leader has sent something lately. `is_level`: the log was as long as the leader's then.
    """

    hears: bool = False
    is_level: bool = False


@dataclass(frozen=True, slots=True)
class Proposing:
    """The member has asked the others to promise `generation`, and has not promised it itself."""

    generation: int


@dataclass(frozen=True, slots=True)
class Adopting:
    """Two members have promised `generation`; this one takes over the log of `source` up to `target`."""

    generation: int
    source: int
    target: TickMark


@dataclass(frozen=True, slots=True)
class Leading:
    """The member leads `generation`, whose first tick has the number `seal`.

    `held` are the ends of the log on the followers' disks, by rank; 0 for a follower that has not answered yet.
    `silent` are the ranks whose disks count for no answer to a producer until they acknowledge again. The set stays
    empty while one follower is enough.
    """

    generation: int
    seal: int
    held: tuple[int, ...]
    silent: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Fenced:
    """The member led, and lost both followers: it takes no entries."""


@dataclass(frozen=True, slots=True)
class Retired:
    """The store takes no part any more: it was replaced, or it comes from a backup."""

    reason: str


Role = Newcomer | Following | Proposing | Adopting | Leading | Fenced | Retired


class RingLimits(NamedTuple):
    """The most ticks in one message, and the most ticks that wait for a follower.

    A request of a producer is answered once so many followers, 1 or 2, have its tick on their disks: `acknowledging`.
    """

    in_message: int = 64
    waiting: int = 64
    acknowledging: int = 1


DEFAULT_LIMITS: Final = RingLimits()


@dataclass(frozen=True, slots=True)
class RingMember:
    """The whole state of one member of one token.

    Attributes:
        record: The durable part, as it is after the effects of the last step.
        role: Lost in a crash, like everything below.
        released: The ticks up to here are released, as far as this member knows.
        highest: The highest generation that the member has seen.
        attempt: The number of denials since the last success.
        limits: The limits of messages and of waiting ticks.
    """

    record: MemberRecord
    role: Role
    released: int = 0
    highest: int = 0
    attempt: int = 0
    limits: RingLimits = DEFAULT_LIMITS

    def keeping(self, effect: Durable) -> "RingMember":
        """Return the member after a durable effect."""
        return replace(self, record=kept(self.record, effect))

    def to_others(self, message: RingMessage) -> tuple[SendMessage, ...]:
        """Return the effects that send *message* to both other members."""
        return tuple(SendMessage(rank, message) for rank in self.record.others)


RingStep = tuple[RingMember, tuple[RingEffect, ...]]


def reopened(record: MemberRecord, limits: RingLimits = DEFAULT_LIMITS) -> RingMember:
    """Return a member that starts with the record of its store.

    The edge has proved that the store holds everything that was ever durable there. Without the proof the edge calls
    `newcomer`.
    """
    return RingMember(record, Following(), limits=limits)


def newcomer(rank: int, uid: int, limits: RingLimits = DEFAULT_LIMITS) -> RingMember:
    """Return a member that starts with an empty store, or with one from a backup; *uid* is a new random number."""
    stores = with_store((UNKNOWN_STORE,) * 3, rank, StoreId(1, uid))
    return RingMember(MemberRecord(rank, stores), Newcomer(), limits=limits)


def disregarded(member: RingMember, why: Disregard) -> RingStep:
    """Return the step in which nothing changes."""
    return member, (Disregarded(why),)
