"""Machine, window and negotiation under everything that can go wrong, against one oracle.

Fault model: frames and acknowledgements are lost with their connection, or come twice; the source's server crashes;
the sink is unreachable; snapshots are requested, cancelled, replaced and fail at any moment; the log is trimmed without
regard to anybody; either database is restored from a backup, the source's with or without noticing it.

Oracle: what the application at the sink has made of it is at every moment a beginning of what the source has (or had,
before a restore) committed for it, in that order, without a gap or a repetition; and when the faults end it is all of it.
"""

from copy import deepcopy

from hypothesis import event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lr_server import events as happened
from lr_server.states import LogEntrySync, SnapshotTransferring, describe
from tests.machine.model import Sink, Source
from tests.machine.simulation import Simulation


class SessionUnderFaults(RuleBasedStateMachine):
    @initialize(initial_sync=st.sampled_from(["snapshot", "log"]), tells=st.booleans())
    def begin(self, initial_sync, tells: bool) -> None:
        self.sim = Simulation(initial_sync=initial_sync)
        self.sim.sink.tells_open_tick = tells
        self.worlds: list[list[int]] = []
        self.source_backup: Source = deepcopy(self.sim.source)
        self.sink_backup: Sink = deepcopy(self.sim.sink)
        self.sim.post(happened.Started())

    # --- the application at the source ------------------------------------------------------------------------

    @rule(owed=st.lists(st.booleans(), min_size=1, max_size=7))
    def transact(self, owed: list[bool]) -> None:
        for one in owed:
            self.sim.source.commit(next(self.sim.numbers), owed=one)

    @rule()
    def tick(self) -> None:
        self.sim.source.tick(next(self.sim.numbers))

    @rule(share=st.floats(0, 1))
    def trim(self, share: float) -> None:
        ticks = self.sim.source.ticks
        if ticks:
            self.sim.source.trim(ticks[int(share * (len(ticks) - 1))].key.seq)

    # --- snapshots --------------------------------------------------------------------------------------------

    @rule()
    def request_snapshot(self) -> None:
        self.sim.request("a person asked for it")

    @rule()
    def build_snapshot(self) -> None:
        self.sim.build()

    @rule()
    def fail_to_build(self) -> None:
        self.sim.fail_to_build()

    @rule()
    def cancel_snapshot(self) -> None:
        self.sim.cancel()

    # --- work -------------------------------------------------------------------------------------------------

    @rule(times=st.integers(1, 4))
    def work(self, times: int) -> None:
        for _ in range(times):
            self.sim.pump()
            self.sim.send()
            self.sim.deliver()
            self.sim.receive()

    @rule()
    def pump(self) -> None:
        self.sim.pump()

    @rule(times=st.integers(1, 4))
    def send(self, times: int) -> None:
        for _ in range(times):
            self.sim.send()

    @rule(times=st.integers(1, 4), twice=st.booleans())
    def deliver(self, times: int, twice: bool) -> None:
        for _ in range(times):
            self.sim.deliver(twice=twice)

    @rule()
    def receive(self) -> None:
        self.sim.receive()

    @rule(count=st.integers(1, 9))
    def consume(self, count: int) -> None:
        self.sim.sink.consume(count)

    @rule()
    def retry(self) -> None:
        self.sim.retry()

    @rule(caught_up=st.booleans())
    def change_mode(self, caught_up: bool) -> None:
        self.sim.post(happened.CaughtUp() if caught_up else happened.FellBehind())

    # --- faults -----------------------------------------------------------------------------------------------

    @rule(delivered=st.integers(0, 4))
    def cut(self, delivered: int) -> None:
        self.sim.cut(delivered)

    @rule(delivered=st.integers(0, 4))
    def crash(self, delivered: int) -> None:
        self.sim.crash(delivered)

    @rule(up=st.booleans())
    def network(self, up: bool) -> None:
        self.sim.network_up = up
        if not up:
            self.sim.cut(0)

    @rule()
    def back_up_source(self) -> None:
        self.source_backup = deepcopy(self.sim.source)

    @rule()
    def back_up_sink(self) -> None:
        self.sink_backup = deepcopy(self.sim.sink)

    @rule(noticed=st.booleans())
    def restore_source(self, noticed: bool) -> None:
        # Between a snapshot and the tick that passes its cut, a restore that is not noticed cannot be told.
        unpassed = self.sim.sink.received.cut or self.sink_backup.received.cut
        noticed = noticed or bool(unpassed)
        self.worlds.append(self.sim.source.owed)
        self.sim.restore_source(self.source_backup, branch=f"b{next(self.sim.numbers)}" if noticed else None)
        event(f"source restored, noticed: {noticed}")

    @rule()
    def restore_sink(self) -> None:
        self.sim.restore_sink(self.sink_backup)
        event("sink restored")

    # --- the oracle -------------------------------------------------------------------------------------------

    @invariant()
    def the_application_has_a_beginning_of_what_was_committed(self) -> None:
        view = self.sim.sink.view
        for world in (self.sim.source.owed, *self.worlds):
            for skipped in {0, self.sim.skipped}:
                if view == world[skipped : skipped + len(view)]:
                    return
        raise AssertionError(f"{view} is a beginning of none of {[self.sim.source.owed, *self.worlds]}")

    @invariant()
    def the_session_believes_no_more_than_the_sink_has(self) -> None:
        state = self.sim.state
        if isinstance(state, LogEntrySync):
            assert state.acked.seq <= self.sim.sink.received.seq
        if isinstance(state, SnapshotTransferring) and self.sim.sink.staging_id == state.sync_id:
            assert state.acked_row <= len(self.sim.sink.staged)

    @invariant()
    def what_is_in_flight_is_bounded(self) -> None:
        assert len(self.sim.window) <= 3

    def teardown(self) -> None:
        if not hasattr(self, "sim"):
            return
        event(f"settles from {describe(self.sim.state).name}")
        self.sim.settle()
        owed = self.sim.source.owed
        view = self.sim.sink.view
        assert view in (owed, owed[self.sim.skipped :])


SessionUnderFaults.TestCase.settings = settings(max_examples=200, stateful_step_count=60, deadline=None)
TestSessionUnderFaults = SessionUnderFaults.TestCase
