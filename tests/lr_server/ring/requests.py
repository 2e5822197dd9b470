"""Requests of producers, and a member without threads that stores them."""

from collections.abc import Sequence
from concurrent.futures import Future

from lr_server.protocol.agreement.effects import Decline
from lr_server.protocol.agreement.events import BeatDue, LeaderUnheard, TryDue
from lr_server.protocol.agreement.generations import RANKS
from lr_server.protocol.agreement.history import TickMark
from lr_server.ring.member_state import follows, led_generation, status_of
from lr_server.ring.release_watch import ReleaseWatch
from lr_server.ring.store import TokenStore
from queues.names import ClientName
from queues.send_log.outbox import SourceTransaction
from queues.send_log.producers import ProducerKey, Production, StoreOutcome
from queues.send_log.ring.tick_contents import TickContent, content_after
from queues.send_log.ring.tick_productions import TickProduction
from tests.lr_server.ring.edges import RingOfFiles
from tests.lr_server.ring.stores import CLIENT, keep_after, new_entry, stamp


def key_of(producer: str = "meter", client: ClientName = CLIENT) -> ProducerKey:
    return ProducerKey(client, producer)


def request(
    sequence: int, *payloads: bytes, producer: str = "meter", process: int = 0, first: int = 0, to: str = "tokyo"
) -> Production:
    entries = [new_entry(payload, to) for payload in payloads or (b"%d" % sequence,)]
    return Production(key_of(producer), sequence, entries if sequence else [], process, first)


def verdicts(outcomes: Sequence[StoreOutcome]) -> list[tuple[str, int]]:
    return [(outcome.verdict.name, outcome.last.sequence) for outcome in outcomes]


def lead_without_rank_0(ring: RingOfFiles) -> None:
    """Let rank 1 lead, while rank 0 hears nothing."""
    for other in (1, 2):
        ring.cuts |= {(0, other), (other, 0)}
    for event in (LeaderUnheard(), TryDue(), BeatDue(), BeatDue()):
        for rank in (1, 2):
            ring.post(rank, event)
            ring.deliver_all()


def take_requests(requests: Sequence[tuple[str, int]], *stores: TokenStore) -> TickContent:
    """Store a tick with one entry for each request, told by its producer and number."""
    end = stores[0].end()
    productions = [
        TickProduction(key_of(producer), sequence, 0, 0, place)
        for place, (producer, sequence) in enumerate(requests, 1)
    ]
    transactions = [SourceTransaction(CLIENT, [new_entry(b"%d" % sequence)]) for _, sequence in requests]
    content = content_after(end, transactions, stamp(), productions)
    keep_after(end.tick.number, [content], *stores)
    return content


class FileMember:
    """A member of `RingOfFiles` as a store of requests sees it; a wait delivers the messages, unless they are held."""

    def __init__(self, ring: RingOfFiles, rank: int) -> None:
        self.ring, self.rank = ring, rank
        self.holds_messages = False
        #: The answers to the next offers, in place of those of the member.
        self.answers: list[Decline | Exception] = []
        #: The number of ticks that the member was offered.
        self.offers = 0

    @property
    def watch(self) -> ReleaseWatch:
        watch = ReleaseWatch()
        watch.note(self.ring.machines[self.rank].edge.member)
        return watch

    def declined(self) -> Decline | None:
        return self.watch.declined()

    def offer(
        self,
        transactions: Sequence[SourceTransaction],
        productions: Sequence[TickProduction] = (),
        after: TickMark | None = None,
    ) -> "Future[TickMark | Decline]":
        self.offers += 1
        outcome: Future[TickMark | Decline] = Future()
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Exception):
            outcome.set_exception(answer)
        else:
            edge = self.ring.machines[self.rank].edge
            outcome.set_result(answer or edge.offer(transactions, productions, after))
        return outcome

    def await_answerable(self, tick: TickMark, timeout: float) -> bool:
        if not self.holds_messages:
            self.ring.deliver_all()
        return self.watch.await_answerable(tick, 0.0)

    def proves(self, generation: int, timeout: float) -> bool:
        machines = [self.ring.machines[rank] for rank in RANKS if (rank, self.rank) not in self.ring.cuts]
        states = [status_of(machine.edge.member, machine.rank, "") for machine in machines]
        is_followed = any(follows(state, generation) for state in states)
        return is_followed and led_generation(self.watch.member) == generation
