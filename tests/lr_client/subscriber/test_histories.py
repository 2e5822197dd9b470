"""Random histories of arrivals, losses, failures and takeovers: each entry is applied once and in order."""

import os
import random
import secrets

import pytest
from sqlalchemy import Engine, update

from queues.database import tables
from queues.database.transactions import writing
from queues.receive import consumer_marks
from queues.wire.entry_pb2 import RoutingTableEntryMsg
from tests.lr_client.subscriber.applying import Undo, story
from tests.lr_client.subscriber.arrivals import Arrivals
from tests.lr_client.subscriber.conftest import Follow
from tests.waiting import eventually

pytestmark = pytest.mark.long

STEPS = 60


class Source:
    """Sends at random and records the entries that must be applied."""

    def __init__(self, engine: Engine, name: str, chance: random.Random) -> None:
        self.arrivals = Arrivals(engine, source=name)
        self.name = name
        self.chance = chance
        # The entries to apply since each snapshot; the first epoch has none. A loss begins an epoch with fewer entries.
        self.epochs: list[list[str]] = [[]]
        # The numbers of entries, and the ends of the ticks of this epoch.
        self.numbers: dict[str, int] = {}
        self.ends = [0]
        self.seq = 0
        self.sent = 0

    def send(self) -> None:
        what = self.chance.random()
        if what < 0.1:
            self._send_snapshot()
        elif what < 0.2:
            self._lose()
        else:
            self._send_tick()

    def _send_tick(self) -> None:
        transactions = [self._payloads(self.chance.randint(1, 4)) for _ in range(self.chance.randint(0, 5))]
        entries = [payload.decode() for payloads in transactions for payload in payloads]
        self.epochs[-1] += entries
        self.seq = self.arrivals.tick(*transactions, gap=self.chance.choice([0, 0, 1, 7] if transactions else [1, 7]))
        self.numbers |= zip(entries, range(self.seq - len(entries) + 1, self.seq + 1), strict=True)
        self.ends.append(self.seq)

    def _lose(self) -> None:
        if self.numbers and self.chance.random() < 0.5:
            eventually(lambda: self.arrivals.left == 0, timeout=60)
        self.seq = self.chance.choice(self.ends)
        self.ends = [end for end in self.ends if end <= self.seq]
        self.epochs.append(self._without(self.epochs[-1], self.seq))
        self.arrivals.go_back(self.seq)

    def _without(self, what: list[str], seq: int) -> list[str]:
        """Return *what* without the log's entries after *seq*; snapshots stay whole."""
        return [each for each in what if self.numbers.get(each, 0) <= seq]

    def _send_snapshot(self) -> None:
        rows = self._payloads(self.chance.choice([0, 1, 5, 30]))
        self.seq = self.chance.randint(0, self.seq)
        self.ends = [self.seq]
        self.epochs.append(["<start>", *[row.decode() for row in rows], "<complete>"])
        self.arrivals.snapshot(f"s{len(self.epochs)}", rows, base=self.seq)

    def _payloads(self, count: int) -> list[bytes]:
        self.sent += count
        return [f"{self.name}{self.sent - n}".encode() for n in reversed(range(count))]

    def check(self, applied: list[str]) -> None:
        """Check that each segment of *applied* is a prefix of an epoch, in their order; the last one is whole."""
        *earlier, last = map(self._undone, _split_at_starts(applied))
        epochs = iter(self.epochs[:-1])
        for segment in earlier:
            assert any(segment == epoch[: len(segment)] for epoch in epochs), f"{segment} was never sent like this"
        assert last == self.epochs[-1]

    def _undone(self, segment: list[str]) -> list[str]:
        """Return a segment of the story without the entries that its rollbacks have undone."""
        left: list[str] = []
        for what in segment:
            if what.startswith("<back to "):
                left = self._without(left, int(what.removeprefix("<back to ").removesuffix(">")))
            else:
                left.append(what)
        return left


def _split_at_starts(applied: list[str]) -> list[list[str]]:
    segments: list[list[str]] = [[]]
    for what in applied:
        if what == "<start>":
            segments.append([])
        segments[-1].append(what)
    return segments


@pytest.mark.parametrize("round_", range(4))
def test_random_histories_are_applied_once_and_in_order(sink: Engine, follow: Follow, round_: int) -> None:
    seed = int(os.environ.get("LRQ_SEED", secrets.randbits(32)))
    print(f"LRQ_SEED={seed}")
    chance = random.Random(seed)
    refusals = random.Random(seed + 1)
    sources = [Source(sink, name, chance) for name in ("tokyo", "paris")]

    def be_moody(entry: RoutingTableEntryMsg) -> object:
        mood = refusals.random()
        if mood < 0.03:
            raise ValueError("not now")
        return False if mood < 0.06 else None

    def subscribe_again() -> None:
        follow(Undo(be_moody), max_batch_entries=chance.choice([1, 3, 1000]), lease_ttl=0.5)

    subscribe_again()
    for _ in range(STEPS):
        chance.choice(sources).send()
        if chance.random() < 0.1:
            _expire(sink)
            subscribe_again()
    eventually(lambda: sum(source.arrivals.left for source in sources) == 0 and _all_in_log(sink), timeout=60)
    for source in sources:
        source.check(story(sink, source.name))


def _expire(engine: Engine) -> None:
    with writing(engine) as connection:
        connection.execute(update(tables.servers.leases).values(expires_us=0))


def _all_in_log(engine: Engine) -> bool:
    with engine.connect() as connection:
        queues = tables.receive.receive_marks.outerjoin(
            tables.consumers.consumers,
            (tables.consumers.consumers.c.queue_id == tables.receive.receive_marks.c.queue_id)
            & (tables.consumers.consumers.c.sync_id == tables.receive.receive_marks.c.sync_id)
            & (tables.consumers.consumers.c.seq == tables.receive.receive_marks.c.boundary_seq)
            & (tables.consumers.consumers.c.phase == "log")
            & (tables.consumers.consumers.c.back_seq == consumer_marks.NOWHERE),
        )
        rows = connection.execute(queues.select()).all()
        return all(row.phase for row in rows)
