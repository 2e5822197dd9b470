"""Every state that three members of one token can reach, within a few generations and ticks.

* A message stays in the network for ever: so it is delivered never, once or often, and in every order.
* A member crashes between any two effects of each step.
* A leader counts as unheard at every moment, and each proposer as level. So a member promises as much as it ever may.
* Denials are left out: their loss is allowed, and a crash does more than they do.

A state with fewer messages than a known one of the same members leads to nothing new.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from lr_server.protocol.agreement.effects import Release, SendMessage, kept
from lr_server.protocol.agreement.events import EntriesOffered, MessageCame, RingEvent, TryDue
from lr_server.protocol.agreement.generations import RANKS
from lr_server.protocol.agreement.history import EMPTY, TickHistory, TickMark
from lr_server.protocol.agreement.machine import advance
from lr_server.protocol.agreement.messages import Append, Ballot, Denial
from lr_server.protocol.agreement.record import MemberRecord, StoreId, founders, with_store
from lr_server.protocol.agreement.roles import (
    Following,
    Leading,
    Newcomer,
    Proposing,
    RingLimits,
    RingMember,
    newcomer,
    reopened,
)
from tests.lr_server.protocol.agreement.invariants import DURABLE, begins, check_state, check_step

#: One tick in a message shows each step of a catch-up.
LIMITS = RingLimits(in_message=1)


@dataclass(frozen=True)
class Outcome:
    """The end of one step, complete or crashed: the member, its new messages, and the newest release if any."""

    member: int
    sent: int
    released: TickHistory | None


@dataclass
class Walk:
    """Members and messages have numbers; a state is three members, the released ticks, and a set of messages.

    A leader takes *ticks* ticks, the seal included. The rank *loses_disk* starts with an empty disk once, at any time.
    """

    generations: tuple[int, ...]
    ticks: int
    loses_disk: int | None = None
    members: list[RingMember] = field(default_factory=list)
    messages: list[tuple[int, MessageCame]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._member_numbers: dict[RingMember, int] = {}
        self._message_numbers: dict[tuple[int, MessageCame], int] = {}
        self._steps: dict[tuple[int, int], tuple[Outcome, ...]] = {}
        self._spontaneous: dict[int, tuple[Outcome, ...]] = {}
        self.to: list[int] = [0, 0, 0]

    def run(self) -> int:
        """Walk every state; return how many there are."""
        first = [replace(record, promised=self.generations[0] - 1) for record in founders([11, 12, 13])]
        start = (*(self._number(reopened(record, LIMITS)) for record in first), EMPTY), 0
        seen, waiting = {start[0]: [0]}, [start]
        states = 0
        while waiting:
            now, network = waiting.pop()
            if network not in seen[now]:
                continue
            states += 1
            for after, more in self._next(now, network):
                known = seen.get(after)
                if known is None:
                    check_state([self.members[number] for number in after[:3] if self._counts(number)], after[3])
                    seen[after] = [more]
                elif any(not more & ~one for one in known):
                    continue
                else:
                    known[:] = [one for one in known if one & ~more]
                    known.append(more)
                waiting.append((after, more))
        return states

    def _next(self, state, network):
        released = state[3]
        for rank in RANKS:
            number = state[rank]
            outcomes = list(self._alone(number))
            if rank == self.loses_disk and self.members[number].record.store.number == 1:
                outcomes.append(Outcome(self._number(replaced(rank)), 0, None))
            waiting = network & self.to[rank]
            while waiting:
                lowest = waiting & -waiting
                waiting ^= lowest
                bit = lowest.bit_length() - 1
                key = (number, bit)
                if key not in self._steps:
                    self._steps[key] = tuple(self._outcomes(number, self.messages[bit][1]))
                outcomes += self._steps[key]
            for outcome in outcomes:
                after = (*state[:rank], outcome.member, *state[rank + 1 : 3], longer(outcome.released, released))
                yield after, network | outcome.sent

    def _alone(self, number: int) -> tuple[Outcome, ...]:
        if number not in self._spontaneous:
            member = self.members[number]
            found = [Outcome(self._number(crashed(member, member.record)), 0, None)]
            for event in (TryDue(), EntriesOffered()):
                found += self._outcomes(number, event)
            self._spontaneous[number] = tuple(one for one in found if (one.member, one.sent) != (number, 0))
        return self._spontaneous[number]

    def _outcomes(self, number: int, event: RingEvent) -> Iterator[Outcome]:
        before = self.members[number]
        after, effects = advance(before, event)
        check_step(before, event, after, effects)
        if not self._is_within(after, effects):
            return
        record, sent, released = before.record, 0, None
        for effect in effects:
            match effect:
                case SendMessage(message=Denial()):
                    pass
                case SendMessage(to=to, message=message):
                    sent |= 1 << self._bit(to, MessageCame(before.record.rank, record.store, message))
                case Release(upto=upto):
                    released = record.history.until(upto)
                case _ if isinstance(effect, DURABLE):
                    record = kept(record, effect)
            if record != after.record:
                yield Outcome(self._number(crashed(before, record)), sent, released)
        yield Outcome(self._number(after), sent, released)

    def _counts(self, number: int) -> bool:
        return not isinstance(self.members[number].role, Newcomer)

    def _is_within(self, member: RingMember, effects) -> bool:
        if isinstance(member.role, Proposing) and member.role.generation not in self.generations:
            return False
        taken = member.record.history.end - member.role.seal if isinstance(member.role, Leading) else 0
        return taken < self.ticks

    def _number(self, member: RingMember) -> int:
        member = replace(
            member, attempt=0, released=member.released if isinstance(member.role, Leading) else 0, highest=0
        )
        if isinstance(member.role, Following):
            member = replace(member, role=Following())
        if member not in self._member_numbers:
            self._member_numbers[member] = len(self.members)
            self.members.append(member)
        return self._member_numbers[member]

    def _bit(self, to: int, came: MessageCame) -> int:
        match came.message:
            case Ballot():
                came = replace(came, message=replace(came.message, newest=TickMark(9, 9)))
            case Append():
                came = replace(came, message=replace(came.message, released=0))
        key = (to, came)
        if key not in self._message_numbers:
            bit = self._message_numbers[key] = len(self.messages)
            self.messages.append(key)
            self.to[to] |= 1 << bit
        return self._message_numbers[key]


def longer(end: TickHistory | None, released: TickHistory) -> TickHistory:
    """Return all that was ever released; a released tick never changes."""
    if end is None:
        return released
    assert begins(end, released) or begins(released, end), f"{end} is released, and was {released}"
    return max(end, released, key=lambda history: history.end)


def crashed(member: RingMember, record: MemberRecord) -> RingMember:
    """Return the member after a crash with *record* on its disk; a newcomer has none until it counts."""
    if isinstance(member.role, Newcomer) and record == member.record:
        return replace(member, role=Newcomer())
    return reopened(record, LIMITS)


def replaced(rank: int) -> RingMember:
    """Return the member with an empty disk; it knows the number of its store, so that the walk is shorter."""
    empty = newcomer(rank, 20 + rank, LIMITS)
    stores = with_store(empty.record.stores, rank, StoreId(2, 20 + rank))
    return replace(empty, record=replace(empty.record, stores=stores))
