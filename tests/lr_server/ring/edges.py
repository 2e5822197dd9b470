"""Three members of a token on SQLite files, without threads: the test delivers each message, and draws each crash.

The memory of a process ends with a crash; the files stay.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from sqlalchemy import Engine, text

from lr_server.protocol.agreement.events import BeatDue, LeaderUnheard, RingEvent, TryDue
from lr_server.protocol.agreement.generations import RANKS
from lr_server.protocol.agreement.messages import Promise, TicksHeld
from lr_server.protocol.agreement.record import founders
from lr_server.protocol.agreement.roles import Leading, Newcomer, Retired, RingLimits
from lr_server.ring.edge import MemberEdge, RingParcel
from lr_server.ring.founding import found
from lr_server.ring.member_state import trimmable
from lr_server.ring.store import TokenStore
from queues.errors import ProtocolError, TransientError
from queues.send_log.outbox import SourceTransaction
from queues.send_log.ring.log_base import LogBase, StoredRequest
from queues.send_log.ring.member_rows import find_member
from queues.send_log.ring.ring_log import remove_all
from queues.send_log.ring.tick_contents import TickContent
from queues.send_log.ring.tick_productions import TickProduction
from tests.lr_server.ring.stores import UIDS, open_store, steps_of, transaction, witness_path

Result = TypeVar("Result")


class CrashError(BaseException):
    """The process of a member ends here, between two effects."""


class OnItsWay(NamedTuple):
    """A parcel for the member `to`."""

    to: int
    parcel: RingParcel


class Machine:
    """The machine of one member: its file, its process, and the surroundings of the process."""

    def __init__(self, ring: "RingOfFiles", rank: int, engine: Engine) -> None:
        self.ring, self.rank, self.engine = ring, rank, engine
        self.alarms: list[str] = []
        #: The setting of the machine; a process that starts later obeys it.
        self.trims = True
        #: The number of effects until the process ends; None for no crash.
        self.effects_left: int | None = None
        self.store = open_store(engine)
        found(self.store, founders(UIDS)[rank])
        self.edge = self._begin()

    def _begin(self) -> MemberEdge:
        self.effects_left = None
        self._watch(self.store)
        return MemberEdge(self.store, self.rank, self, limits=self.ring.limits, trims=self.trims)

    def _watch(self, store: TokenStore) -> None:
        """Let a crash come after each durable effect, and between the parts of a copy."""
        for name in ("keep", "copy", "copy_base", "copy_requests", "trim"):
            setattr(store, name, partial(self._counted, getattr(store, name)))

    def _counted(self, work: Callable[..., Result], *given: object) -> Result:
        if self.effects_left == 0:
            raise CrashError
        if self.effects_left is not None:
            self.effects_left -= 1
        return work(*given)

    def kept(self) -> list[TickContent]:
        """Return the ticks of the file that are not trimmed."""
        return self.store.read(self.store.trimmed(), 10_000)

    def start_again(self) -> None:
        """End the process, and begin another from the file."""
        self.store.close()
        self.store = open_store(self.engine)
        self.edge = self._begin()

    def step(self, work: Callable[[], object], crash_after: int | None) -> None:
        """Let the member work; end its process after some effects, or by an error of its own."""
        self.effects_left = crash_after
        try:
            work()
        except CrashError:
            self.start_again()
        except (ProtocolError, TransientError):
            self.start_again()
        else:
            if crash_after is not None:
                self.start_again()

    # --- the surroundings of the member -----------------------------------------------------------------------

    def send(self, to: int, parcel: RingParcel) -> None:
        self._check_told(parcel)
        self._counted(lambda: self.ring.send(self.rank, to, parcel))

    def _check_told(self, parcel: RingParcel) -> None:
        """A member tells a promise, or acknowledges a tick, only when the file and the witness have it."""
        message = parcel.message
        if not isinstance(message, Promise | TicksHeld):
            return
        self.ring.told.add(type(message))
        record = self.store.record()
        assert record is not None, "a store that does not count has promised or acknowledged"
        if isinstance(message, Promise):
            assert record.promised >= message.generation, "a promise is told before it is durable"
            assert record.history == message.history, "a promise tells another log than the file has"
        else:
            assert record.history.holds(message.upto), "a tick is acknowledged before it is durable"
        with self.engine.connect() as connection:
            row = find_member(connection)
        assert row is not None
        assert steps_of(witness_path(self.engine))[-1] == row.step, "a member speaks before its witness knows the step"

    def pull(self, rank: int, after: int) -> Sequence[TickContent]:
        return self.ring.machines[rank].store.read(after, 2)

    def pull_base(self, rank: int) -> LogBase:
        return self.ring.machines[rank].store.read_base()

    def pull_requests(self, rank: int, after: int, upto: int) -> Sequence[StoredRequest]:
        return self.ring.machines[rank].store.read_requests(after, upto)[:2]

    def release(self, upto: int) -> None:
        self._counted(lambda: self.ring.release(self, upto))

    def try_after(self, attempt: int) -> None:
        pass

    def alarm(self, words: str) -> None:
        self.alarms.append(words)


class RingOfFiles:
    """The three machines, the messages between them, and the ticks that any leader has released."""

    def __init__(self, engines: Sequence[Engine], limits: RingLimits) -> None:
        self.limits = limits
        self.network: list[OnItsWay] = []
        #: The kinds of messages that were checked against the file of their sender.
        self.told: set[type] = set()
        self.cuts: set[tuple[int, int]] = set()
        #: The oracle: each released tick, as it was when it was released.
        self.released: list[TickContent] = []
        #: The payloads that producers know as stored.
        self.machines: list[Machine] = []
        for rank, engine in enumerate(engines):
            self.machines.append(Machine(self, rank, engine))

    def send(self, sender: int, to: int, parcel: RingParcel) -> None:
        if (sender, to) not in self.cuts:
            self.network.append(OnItsWay(to, parcel))

    def release(self, machine: Machine, upto: int) -> None:
        """Note the released ticks; a released tick never changes."""
        now = [content for content in machine.kept() if content.tick.number <= upto]
        assert now[-1].tick.number == upto
        trimmed = upto - len(now)
        assert trimmed <= len(self.released), "a tick is trimmed that was never released"
        shorter = min(upto, len(self.released)) - trimmed
        assert now[:shorter] == self.released[trimmed : trimmed + shorter], "a released tick has changed"
        self.released += now[shorter:]

    def post(self, rank: int, event: RingEvent, crash_after: int | None = None) -> None:
        machine = self.machines[rank]
        machine.step(lambda: machine.edge.post(event), crash_after)
        self.check(machine)

    def offer(
        self,
        rank: int,
        offered: SourceTransaction,
        crash_after: int | None = None,
        asked: Sequence[TickProduction] = (),
    ) -> None:
        machine = self.machines[rank]
        machine.step(lambda: machine.edge.offer([offered], asked), crash_after)
        self.check(machine)

    def trim(self, rank: int, crash_after: int | None = None) -> None:
        """Let a leader trim all that both followers hold, and tell it with its next sign of life."""
        machine = self.machines[rank]
        upto = trimmable(machine.edge.member)
        if isinstance(machine.edge.member.role, Leading) and upto > machine.store.trimmed():
            machine.step(lambda: machine.store.trim(upto), crash_after)
            self.check(machine)

    def deliver(self, index: int, crash_after: int | None = None, *, again: bool = False) -> None:
        to, parcel = self.network[index] if again else self.network.pop(index)
        machine = self.machines[to]
        machine.step(lambda: machine.edge.receive(parcel), crash_after)
        self.check(machine)

    def check(self, machine: Machine) -> None:
        """The file has all that the machine believes to have, and the leader has every released tick."""
        member = machine.edge.member
        if isinstance(member.role, Newcomer):
            assert machine.store.record() is None
            return
        assert machine.store.record() == member.record, f"rank {machine.rank} believes in another record than its file"
        if isinstance(member.role, Leading) and self.released:
            last = self.released[-1]
            if last.generation <= member.role.generation:
                trimmed = machine.store.trimmed()
                assert machine.kept()[: len(self.released) - trimmed] == self.released[trimmed:]

    def lose_file(self, rank: int) -> None:
        """Start a machine without its witness, as with a file from a backup."""
        machine = self.machines[rank]
        machine.store.close()
        witness_path(machine.engine).unlink()
        machine.store = open_store(machine.engine)
        machine.edge = machine._begin()

    def lose_disk(self, rank: int) -> None:
        """Start a machine with an empty file."""
        with self.machines[rank].engine.begin() as connection:
            remove_all(connection)
            for table in ("lrq_ring_member", "lrq_ring_stores", "lrq_strangers", "lrq_tag_sets", "lrq_tag_set_members"):
                connection.execute(text(f"DELETE FROM {table}"))
        self.lose_file(rank)

    def counts(self, rank: int) -> bool:
        member = self.machines[rank].edge.member
        known = max(each.edge.member.record.stores[rank].number for each in self.machines)
        return not isinstance(member.role, Newcomer | Retired) and member.record.store.number == known

    # --- quiet times ------------------------------------------------------------------------------------------

    def deliver_all(self) -> None:
        for _ in range(2_000):
            if not self.network:
                return
            self.deliver(0)
        raise AssertionError("the members talk without an end")

    def everywhere(self, event: RingEvent) -> None:
        for rank in RANKS:
            self.post(rank, event)
            self.deliver_all()

    def settle(self) -> None:
        """End all faults; an operator empties stores that were replaced."""
        self.cuts.clear()
        self.everywhere(LeaderUnheard())
        for _ in range(6):
            self.everywhere(BeatDue())
            for rank in RANKS:
                if isinstance(self.machines[rank].edge.member.role, Retired):
                    self.lose_file(rank)
            self.everywhere(TryDue())

    def take(self, rank: int, *payloads: bytes) -> None:
        """Let a leader take entries, and deliver everything."""
        self.offer(rank, transaction(*payloads))
        self.deliver_all()
