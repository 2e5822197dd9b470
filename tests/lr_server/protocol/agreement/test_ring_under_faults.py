"""The agreement under all faults of the model, for two tokens of three machines.

Fault model:

* Messages are lost, repeated, late, and overtaken; one direction of a connection is cut.
* A machine crashes between any two effects of a step, and starts again from its disks.
* A disk is lost, restored from a backup, or comes back after its replacement; one machine at a time.
* Clocks tell anything at any moment.

Oracle: the invariants R1 to R9 after each step, and released ticks that never change. After the faults rank 0 leads
each token, all logs are equal, and no generation begins without a cause. Where both followers must acknowledge, each
answered tick is in the log of every member that counts.
"""

from hypothesis import event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from lr_server.protocol.agreement.events import (
    BeatDue,
    EntriesOffered,
    FollowersUnheard,
    FollowerUnheard,
    LeaderUnheard,
    TryDue,
)
from lr_server.protocol.agreement.generations import RANKS
from lr_server.protocol.agreement.record import MemberRecord
from lr_server.protocol.agreement.roles import DEFAULT_LIMITS, RingLimits
from tests.lr_server.protocol.agreement.world import MemberKey, RingWorld

TOKENS = 2
KEYS = st.builds(MemberKey, st.integers(0, TOKENS - 1), st.sampled_from(RANKS))
MACHINES = st.integers(0, 2)
#: The number of effects before a crash; most steps are completed.
CRASHES = st.none() | st.none() | st.none() | st.integers(0, 4)
CLOCKS = st.sampled_from(
    [TryDue(), TryDue(), BeatDue(), LeaderUnheard(), FollowersUnheard(), FollowerUnheard(1), FollowerUnheard(2)]
)
#: The most messages on their way.
MOST = 80


class RingUnderFaults(RuleBasedStateMachine):
    limits = DEFAULT_LIMITS

    def __init__(self) -> None:
        super().__init__()
        self.world = RingWorld(TOKENS, self.limits)
        self.earlier: dict[int, dict[MemberKey, MemberRecord]] = {}

    @initialize(rank=st.integers(0, 1))
    def begin(self, rank: int) -> None:
        for token in range(TOKENS):
            self.take_over(token, rank, 1)

    # --- work -------------------------------------------------------------------------------------------------

    @rule(key=KEYS, clock=CLOCKS, crash=CRASHES)
    def let_time_pass(self, key: MemberKey, clock, crash: int | None) -> None:
        self.world.step(key, clock, crash)

    @rule(token=st.integers(0, TOKENS - 1), crash=CRASHES)
    def offer(self, token: int, crash: int | None) -> None:
        for rank in RANKS:
            self.world.step(MemberKey(token, rank), EntriesOffered(), crash)

    @rule(data=st.data(), count=st.integers(1, 6), crash=CRASHES, again=st.booleans())
    def deliver(self, data: st.DataObject, count: int, crash: int | None, again: bool) -> None:
        for _ in range(count):
            if self.world.network:
                index = data.draw(st.integers(0, len(self.world.network) - 1))
                self.world.deliver(index, crash, again=again)

    @rule(rounds=st.integers(1, 12))
    def work(self, rounds: int) -> None:
        """Deliver in order, as most connections do."""
        for _ in range(rounds):
            if self.world.network:
                self.world.deliver(0)

    @rule(token=st.integers(0, TOKENS - 1), rank=st.integers(0, 1), entries=st.integers(0, 2))
    def take_over(self, token: int, rank: int, entries: int) -> None:
        """Let one member try to lead, with silence before and work after."""
        for each in RANKS:
            self.world.step(MemberKey(token, each), LeaderUnheard())
        self.world.step(MemberKey(token, rank), TryDue())
        self.work(8)
        for _ in range(entries):
            self.world.step(MemberKey(token, rank), EntriesOffered())
            self.work(2)

    # --- faults -----------------------------------------------------------------------------------------------

    @rule(data=st.data(), count=st.integers(1, 10))
    def lose(self, data: st.DataObject, count: int) -> None:
        for _ in range(min(count, len(self.world.network))):
            self.world.network.pop(data.draw(st.integers(0, len(self.world.network) - 1)))

    @rule(machine=MACHINES)
    def crash(self, machine: int) -> None:
        self.world.crash(machine)

    @rule(one=MACHINES, other=MACHINES)
    def cut(self, one: int, other: int) -> None:
        self.world.cuts.add((one, other))

    @rule()
    def heal(self) -> None:
        self.world.cuts.clear()

    @rule(machine=MACHINES)
    def lose_disk(self, machine: int) -> None:
        if self.world.may_lose_disk(machine):
            keys = self.world.of_machine(machine)
            if all(self.world.counts(key) for key in keys):
                self.earlier[machine] = {key: self.world.disks[key] for key in keys}
            self.world.lose_disk(machine)

    @rule(machine=MACHINES)
    def put_back_the_replaced_disk(self, machine: int) -> None:
        """The others have forgotten the earlier store; before that, the earlier disk would only be late."""
        earlier = self.earlier.get(machine)
        if earlier and self.world.may_lose_disk(machine) and self.is_replaced(earlier):
            self.world.put_back(earlier)

    def is_replaced(self, earlier: dict[MemberKey, MemberRecord]) -> bool:
        return all(
            other.record.stores[key.rank].number > disk.store.number
            for key, disk in earlier.items()
            for other in self.world.of_token(key.token)
            if other.record.rank != key.rank
        )

    @rule()
    def calm(self) -> None:
        """Without faults rank 0 leads, takes entries, and keeps its generation for ever."""
        self.world.settle()
        assert list(self.world.unsettled()) == []
        ballots, before = self.world.ballots, [released.end for released in self.world.released.values()]
        for clock in (TryDue(), EntriesOffered(), BeatDue(), TryDue()):
            self.world.everywhere(clock)
        assert [released.end for released in self.world.released.values()] == [end + 1 for end in before]
        assert self.world.ballots == ballots, "R9: a quiet hour has a new generation"
        assert list(self.world.unsettled()) == []

    @invariant()
    def messages_are_bounded(self) -> None:
        del self.world.network[:-MOST]

    def teardown(self) -> None:
        for token in range(TOKENS):
            generation = max(member.record.promised for member in self.world.of_token(token))
            event(f"generations of a token: {min(generation, 12) // 3 * 3} or more")
            event(f"released ticks of a token: {min(self.world.released[token].end, 12) // 3 * 3} or more")
            event(f"answered ticks of a token: {min(self.world.answered[token].end, 12) // 3 * 3} or more")
        self.calm()


class RingOfThreeDisks(RingUnderFaults):
    """Producers are answered once both followers have a tick."""

    limits = RingLimits(acknowledging=2)


RingUnderFaults.TestCase.settings = settings(max_examples=80, stateful_step_count=50, deadline=None)
TestRingUnderFaults = RingUnderFaults.TestCase
RingOfThreeDisks.TestCase.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)
TestRingOfThreeDisks = RingOfThreeDisks.TestCase
