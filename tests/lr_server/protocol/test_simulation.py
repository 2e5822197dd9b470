"""Machine, window and negotiation under all faults of the model, against one oracle.

Fault model:

* Frames and acknowledgements are lost with their connection, or doubled.
* The source's server crashes, and the sink becomes unreachable.
* Snapshots are requested, cancelled, replaced and fail at any moment.
* The log is trimmed though the session still needs its entries.
* Either database is restored from a backup; the source may not notice its own restore.

Oracle: the application's entries at the sink are always a prefix of the entries committed for it at the source. Entries
from before a restore count too. The prefix has the same order, no gap and no repetition. After the faults the prefix is
the whole.
"""

from collections import deque
from copy import deepcopy

import pytest
from hypothesis import event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from lr_server.protocol import events as happened
from lr_server.protocol.states import LogEntrySync, SnapshotTransferring
from tests.lr_server.protocol.model import Sink, Source
from tests.lr_server.protocol.simulation import Simulation

pytestmark = pytest.mark.long

#: Marks the rows of a transaction that are for this session; often there are none.
OWED = st.lists(st.booleans(), min_size=1, max_size=7) | st.lists(st.just(False), min_size=1, max_size=3)


class SessionUnderFaults(RuleBasedStateMachine):
    @initialize(
        initial_sync=st.sampled_from(["snapshot", "log", "auto"]),
        tells=st.booleans(),
        keeps=st.booleans(),
        undoes=st.booleans(),
        before=st.integers(0, 3),
    )
    def begin(self, initial_sync, tells: bool, keeps: bool, undoes: bool, before: int) -> None:
        self.sim = Simulation(initial_sync=initial_sync)
        self.sim.sink.tells_open_tick = tells
        self.sim.sink.undoes = undoes
        self.sim.source.keeps_ticks = keeps
        self.worlds: list[list[int]] = []
        self.source_backups: deque[Source] = deque([deepcopy(self.sim.source)], maxlen=4)
        self.sink_backups: deque[Sink] = deque([deepcopy(self.sim.sink)], maxlen=4)
        self.sim.post(happened.Started())
        for _ in range(before):
            self.transact([True, True, False, True, True], ticks=True)
        if before:
            self.calm()

    # --- the source's application and server ------------------------------------------------------------------

    @rule(owed=OWED, ticks=st.booleans())
    def transact(self, owed: list[bool], ticks: bool) -> None:
        for one in owed:
            self.sim.source.commit(next(self.sim.numbers), owed=one)
        if ticks:
            self.source_backups.append(deepcopy(self.sim.source))
            self.sim.source.tick(next(self.sim.numbers))

    @rule(back=st.integers(0, 3))
    def trim(self, back: int) -> None:
        ticks = self.sim.source.ticks
        if len(ticks) > back:
            self.sim.source.trim(ticks[-1 - back].key.seq)

    @rule(action=st.sampled_from(["build", "request", "fail", "cancel"]))
    def snapshot(self, action: str) -> None:
        match action:
            case "build":
                self.sim.build()
            case "request":
                self.sim.request("a person asked for it")
            case "fail":
                self.sim.fail_to_build()
            case "cancel":
                self.sim.cancel()

    # --- work -------------------------------------------------------------------------------------------------

    @rule(rounds=st.integers(1, 6), builds=st.booleans(), caught_up=st.booleans())
    def work(self, rounds: int, builds: bool, caught_up: bool) -> None:
        self.sim.retry()
        self.sim.post(happened.CaughtUp() if caught_up else happened.FellBehind())
        for _ in range(rounds):
            self.sim.pump()
            if builds:
                self.sim.build()
            self.sim.send()
            self.sim.deliver()
            self.sim.receive()
            self.sim.pump()

    @rule(
        sent=st.integers(0, 3),
        delivered=st.integers(0, 3),
        heard=st.integers(0, 3),
        twice=st.booleans(),
        answered=st.booleans(),
    )
    def work_unevenly(self, sent: int, delivered: int, heard: int, twice: bool, answered: bool) -> None:
        self.sim.retry()
        self.sim.pump(answered=answered)
        for _ in range(sent):
            self.sim.send()
        for _ in range(delivered):
            self.sim.deliver(twice=twice)
        for _ in range(heard):
            self.sim.receive()

    @rule()
    def calm(self) -> None:
        """Without faults the session comes to rest, and the application has all entries for it."""
        self.sim.settle()
        assert self.sim.sink.view == self.sim.source.owed[self.sim.sink.skipped :]

    @rule(count=st.integers(1, 9))
    def consume(self, count: int) -> None:
        self.sink_backups.append(deepcopy(self.sim.sink))
        self.sim.sink.consume(count)

    # --- faults -----------------------------------------------------------------------------------------------

    @rule(
        delivered=st.integers(0, 4),
        of=st.sampled_from(["connection", "change", "server", "network"]),
        noticed=st.booleans(),
    )
    def lose(self, delivered: int, of: str, noticed: bool) -> None:
        match of:
            case "connection":
                self.sim.cut(delivered)
            case "change":
                self.sim.change(delivered)
            case "server":
                self.sim.crash(delivered)
            case "network":
                self.sim.network_up = not self.sim.network_up
                self.sim.cut(delivered)
        if noticed:
            self.sim.pump()

    @rule(
        what=st.sampled_from(["sink", "source", "source, unnoticed"]),
        back=st.integers(1, 4),
        then=st.just([]) | OWED,
    )
    def restore(self, what: str, back: int, then: list[bool]) -> None:
        """After a restore the source commits and ticks more entries before the sink answers again."""
        if what == "sink":
            self.sim.restore_sink(self.sink_backups[-min(back, len(self.sink_backups))])
            return
        # Between a snapshot and the tick that passes its cut, an unnoticed restore cannot be detected.
        unpassed = any(sink.received.cut for sink in (self.sim.sink, *self.sink_backups))
        unnoticed = what == "source, unnoticed" and not unpassed
        self.worlds.append(self.sim.source.owed)
        backup = self.source_backups[-min(back, len(self.source_backups))]
        self.sim.restore_source(backup, branch=None if unnoticed else f"b{next(self.sim.numbers)}")
        if then:
            self.transact(then, ticks=True)
            self.sim.pump()

    # --- the oracle -------------------------------------------------------------------------------------------

    @invariant()
    def the_application_has_a_prefix_of_the_committed_entries(self) -> None:
        sink, worlds = self.sim.sink, [self.sim.source.owed, *self.worlds]
        end = sink.skipped + len(sink.view)
        assert any(sink.view == world[sink.skipped : end] for world in worlds), f"{sink.view} begins none of {worlds}"

    @invariant()
    def the_session_believes_no_more_than_the_sink_has(self) -> None:
        if self.sim.events or self.sim.answer is not None:
            return  # the event that tells of the lost connection may be on its way
        state = self.sim.state
        if isinstance(state, LogEntrySync):
            assert state.acked.seq <= self.sim.sink.received.seq
        if isinstance(state, SnapshotTransferring) and self.sim.sink.staging_id == state.sync_id:
            assert state.acked_row <= len(self.sim.sink.staged)

    @invariant()
    def frames_in_flight_are_bounded(self) -> None:
        assert len(self.sim.window) <= 3

    def teardown(self) -> None:
        if not hasattr(self, "sim"):
            return
        event(f"settles from {type(self.sim.state).__name__}")
        self.calm()


SessionUnderFaults.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestSessionUnderFaults = SessionUnderFaults.TestCase
