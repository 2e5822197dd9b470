"""Three machines in memory with the disks, members and messages of their tokens; the test draws each step."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

from discovery.ring import Ring
from lr_server.protocol.agreement.answers import answerable_end
from lr_server.protocol.agreement.effects import Release, RingEffect, SendMessage, kept
from lr_server.protocol.agreement.events import BeatDue, LeaderUnheard, MessageCame, RingEvent, TryDue
from lr_server.protocol.agreement.generations import RANKS, members_of
from lr_server.protocol.agreement.history import EMPTY, TickHistory
from lr_server.protocol.agreement.machine import advance
from lr_server.protocol.agreement.messages import Ballot
from lr_server.protocol.agreement.record import MemberRecord, founders
from lr_server.protocol.agreement.roles import (
    DEFAULT_LIMITS,
    Leading,
    Newcomer,
    Retired,
    RingLimits,
    RingMember,
    newcomer,
    reopened,
)
from tests.lr_server.protocol.agreement.invariants import DURABLE, begins, check_state, check_step

#: The ring of the tests: three machines.
RING = Ring(3)


class MemberKey(NamedTuple):
    """One member: the place whose token it is, and the rank there."""

    token: int
    rank: int

    @property
    def machine(self) -> int:
        """The machine of the member, by the ring."""
        return members_of(RING, RING.token_at(self.token))[self.rank]


class Envelope(NamedTuple):
    """A message on its way."""

    to: MemberKey
    came: MessageCame


@dataclass
class RingWorld:
    """The members of *tokens*; every step is checked, and so is every state after a step."""

    tokens: int = 1
    limits: RingLimits = DEFAULT_LIMITS
    disks: dict[MemberKey, MemberRecord | None] = field(default_factory=dict)
    members: dict[MemberKey, RingMember] = field(default_factory=dict)
    network: list[Envelope] = field(default_factory=list)
    cuts: set[tuple[int, int]] = field(default_factory=set)
    released: dict[int, TickHistory] = field(default_factory=dict)
    #: The ticks whose requests any leader may have answered, if both followers must acknowledge.
    answered: dict[int, TickHistory] = field(default_factory=dict)
    ballots: int = 0

    def __post_init__(self) -> None:
        self._uids = count(101)
        for token in range(self.tokens):
            self.released[token] = self.answered[token] = EMPTY
            for record in founders([next(self._uids) for _ in RANKS]):
                key = MemberKey(token, record.rank)
                self.disks[key], self.members[key] = record, reopened(record, self.limits)

    def of_machine(self, machine: int) -> list[MemberKey]:
        """Return the members of one machine."""
        return [key for key in self.members if key.machine == machine]

    def of_token(self, token: int) -> list[RingMember]:
        """Return the members of one token, by rank."""
        return [self.members[MemberKey(token, rank)] for rank in RANKS]

    def counts(self, key: MemberKey) -> bool:
        """Return whether the member has all that its member ever promised and acknowledged."""
        member = self.members[key]
        known = max(other.record.stores[key.rank].number for other in self.of_token(key.token))
        return not isinstance(member.role, Newcomer | Retired) and member.record.store.number == known

    # --- steps ------------------------------------------------------------------------------------------------

    def step(self, key: MemberKey, event: RingEvent, crash_after: int | None = None) -> Sequence[RingEffect]:
        """Let a member take *event*; crash it after some of its effects if *crash_after* tells how many."""
        before = self.members[key]
        after, effects = advance(before, event)
        check_step(before, event, after, effects)
        self.members[key] = after
        done = effects if crash_after is None else effects[:crash_after]
        for effect in done:
            self._carry_out(key, effect)
        if crash_after is not None:
            self.reopen(key)
        self._note_answers(key)
        self.check(key.token)
        return done

    def _carry_out(self, key: MemberKey, effect: RingEffect) -> None:
        disk = self.disks[key]
        match effect:
            case SendMessage(to=to, message=message):
                self.ballots += isinstance(message, Ballot)
                store = self.members[key].record.store
                self._send(key, Envelope(MemberKey(key.token, to), MessageCame(key.rank, store, message)))
            case Release(upto=upto):
                self._release(key, upto)
            case _ if isinstance(effect, DURABLE):
                self.disks[key] = kept(disk or self.members[key].record, effect)

    def _send(self, key: MemberKey, envelope: Envelope) -> None:
        if (key.machine, envelope.to.machine) not in self.cuts:
            self.network.append(envelope)

    def _release(self, key: MemberKey, upto: int) -> None:
        disk, before = self.disks[key], self.released[key.token]
        assert disk is not None
        now = disk.history.until(upto)
        assert begins(now, before) or begins(before, now), f"{now} is released, and was {before}"
        self.released[key.token] = now if now.end > before.end else before

    def _note_answers(self, key: MemberKey) -> None:
        """Note the requests that a member may answer now; a leader answers them at once."""
        member = self.members[key]
        if self.limits.acknowledging > 1 and (end := answerable_end(member)) > self.answered[key.token].end:
            self.answered[key.token] = member.record.history.until(end)

    def check(self, token: int) -> None:
        """Check the invariants of one token."""
        keys = [MemberKey(token, rank) for rank in RANKS]
        whole = [self.members[key] for key in keys if self.counts(key)]
        check_state(whole, self.released[token])
        for member in whole:
            answered = self.answered[token]
            assert begins(answered, member.record.history), f"{answered} was answered, and {member.record} lacks it"

    def deliver(self, index: int, crash_after: int | None = None, *, again: bool = False) -> Sequence[RingEffect]:
        """Deliver one message; *again* leaves a copy of it on the way."""
        to, came = self.network[index] if again else self.network.pop(index)
        return self.step(to, came, crash_after)

    # --- faults -----------------------------------------------------------------------------------------------

    def reopen(self, key: MemberKey) -> None:
        """Start the member's process again, from its disk."""
        disk = self.disks[key]
        self.members[key] = (
            newcomer(key.rank, next(self._uids), self.limits) if disk is None else reopened(disk, self.limits)
        )

    def crash(self, machine: int) -> None:
        """Kill the machine and start it again."""
        for key in self.of_machine(machine):
            self.reopen(key)

    def may_lose_disk(self, machine: int) -> bool:
        """Return whether both other machines count, for every token: one disk at a time may be lost."""
        return all(self.counts(key) for key in self.members if key.machine != machine)

    def lose_disk(self, machine: int) -> None:
        """Start the machine with an empty disk, or with one from a backup, which counts as an empty one."""
        for key in self.of_machine(machine):
            self.disks[key] = None
        self.crash(machine)

    def put_back(self, disks: dict[MemberKey, MemberRecord]) -> None:
        """Start a machine with the disks that it had at an earlier time, as if they were its newest ones."""
        for key, disk in disks.items():
            self.disks[key] = disk
            self.reopen(key)

    # --- quiet times ------------------------------------------------------------------------------------------

    def deliver_all(self) -> None:
        """Deliver every message in order, and every answer."""
        for _ in range(500):
            if not self.network:
                return
            self.deliver(0)
        raise AssertionError("the members talk without an end")

    def everywhere(self, event: RingEvent) -> None:
        """Post *event* to every member, and deliver all messages after each."""
        for key in list(self.members):
            self.step(key, event)
            self.deliver_all()

    def settle(self) -> None:
        """Let every fault end, and let all clocks go on; an operator empties replaced disks."""
        self.cuts.clear()
        self.everywhere(LeaderUnheard())
        for _ in range(6):
            self.everywhere(BeatDue())
            for key in [key for key in self.members if isinstance(self.members[key].role, Retired)]:
                self.disks[key] = None
                self.reopen(key)
            self.everywhere(TryDue())

    def unsettled(self) -> Iterator[str]:
        """Yield the reason for each token that is not led by rank 0 with three equal logs."""
        for token in range(self.tokens):
            members = self.of_token(token)
            if not isinstance(members[0].role, Leading) or members[0].released < members[0].role.seal:
                yield f"token {token} is not led by rank 0: {members[0].role}"
            if len({(member.record.history, member.record.promised) for member in members}) != 1:
                yield f"token {token} has different logs: {[member.record for member in members]}"
