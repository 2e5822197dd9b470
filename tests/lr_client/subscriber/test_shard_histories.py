"""Random histories of shards in several processes, against one shard that has the same arrivals."""

import os
import random
import secrets
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TypeVar

import pytest
from sqlalchemy import Engine, func, select

from lr_client.subscriber.sharding import move_slots, set_shards, shards_of
from queues.database.tables.shards import shard_changes
from queues.database.transactions import reading
from queues.errors import StoreUnavailableError
from queues.shard_maps import ShardMap
from tests.conftest import NewSite
from tests.lr_client.subscriber.arrivals import Arrivals
from tests.lr_client.subscriber.conftest import Follow
from tests.lr_client.subscriber.keeping import Held, Keep, held, kept
from tests.lr_client.subscriber.test_shard_processes import Processes
from tests.waiting import eventually

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]

#: Numbers, so that each partitioner has a slot for each key.
KEYS = tuple(map(str, range(16)))
PARTITIONERS = ("hash", "key", "modulo", "range(1,12,2,5,8)", "adaptive")
MOMENTS = 14
#: Moves of slots in one history, and before each moment.
MOVES, MOVES_AT_ONCE = 100, 7
#: After so many moves the history waits until the newest map is in use.
UNTIL_ADOPTED = 4
Changed = TypeVar("Changed")
Transaction = list[tuple[str | None, bytes]]


class Sites:
    """A site with shards in processes, and a site with one thread; both receive the same."""

    def __init__(self, sharded: Engine, single: Engine, chance: random.Random) -> None:
        self.both = Arrivals(sharded), Arrivals(single)
        self.sharded, self.single, self._chance = sharded, single, chance
        self._number = self._snapshots = 0
        #: The ends of ticks since the last snapshot.
        self.ends: list[int] = [0]
        #: Whether a rollback may be pending, before which no snapshot comes.
        self.has_gone_back = False

    def receive(self, count: int) -> None:
        transactions = [self._transaction() for _ in range(count)]
        (end, _) = [arrivals.keyed(*transactions) for arrivals in self.both]
        self.ends.append(end)

    def _transaction(self) -> Transaction:
        # Most have one key; barriers have several keys, or none.
        keys: list[str | None] = [self._chance.choice(KEYS)]
        match self._chance.randrange(20):
            case 0:
                keys = [None]
            case 1:
                keys = list(self._chance.sample(KEYS, 3))
        self._number += 1
        return [(key, f"{self._number}".encode()) for key in keys]

    def lose(self) -> None:
        """Lose the entries after the end of a tick."""
        end = self._chance.choice(self.ends[-3:])
        self.ends = [each for each in self.ends if each <= end]
        for arrivals in self.both:
            arrivals.go_back(end)
        self.has_gone_back = True

    def snapshot(self) -> None:
        if self.has_gone_back:
            self.settle()
        self._snapshots += 1
        base = self.ends[-1] + 5
        for arrivals in self.both:
            arrivals.snapshot(f"s{self._snapshots}", [b"row 1", b"row 2", b"row 3"], base=base)
        self.ends = [base]

    def settle(self) -> None:
        """Wait until both have applied everything."""
        # Processes that begin take their shares of the shards within seconds.
        eventually(lambda: all(arrivals.left == 0 for arrivals in self.both), timeout=60)
        self.receive(1)
        eventually(lambda: all(arrivals.left == 0 for arrivals in self.both), timeout=60)
        self.has_gone_back = False

    def check(self) -> None:
        """Compare the kept entries of both sites."""
        told, wanted = kept(self.sharded), kept(self.single)
        assert sorted(told, key=str) == sorted(wanted, key=str), "each exactly once"
        for key in KEYS:
            assert of_key(told, key) == of_key(wanted, key), f"order of {key}"
        for place, each in enumerate(told):
            if each.key is None and each.seq:
                assert all(before.seq < each.seq for before in told[:place]), "a barrier comes after all before it"
                assert all(after.seq > each.seq for after in told[place + 1 :]), "all after a barrier come after it"


class Moves:
    """Moves slots to other shards while entries arrive, and changes their number and the partitioner."""

    def __init__(self, sites: Sites, chance: random.Random) -> None:
        self._sites, self._chance, self._sink = sites, chance, sites.sharded
        self.made = 0

    def divide(self, shards: int, partitioner: str) -> None:
        retried(lambda: set_shards(self._sink, "policy", shards, partitioner=partitioner))

    def make(self, count: int) -> None:
        """Make *count* moves, each after a few transactions; a client with one shard has none."""
        for _ in range(count):
            if self._newest().shards == 1:
                return
            self._sites.receive(self._chance.randrange(1, 4))
            # Slots of the partitioner `adaptive` are moved by the subscribers too.
            version = retried(lambda: move_slots(self._sink, "policy", self._some(self._newest()))).version
            self.made += 1
            if not self.made % UNTIL_ADOPTED:
                # Processes that begin take their shares of the shards within seconds.
                eventually(lambda version=version: self._adopted() >= version, timeout=60)

    def _newest(self) -> ShardMap:
        known = shards_of(self._sink, "policy")
        assert known is not None
        return known

    def _some(self, known: ShardMap) -> dict[int, int]:
        """Return moves of a few slots; they leave no shard without a slot."""
        slots = sorted({known.slot(key) for key in self._chance.sample(KEYS, 4)})
        moves = {slot: self._chance.randrange(known.shards) for slot in slots}
        owners = {slot: moves.get(slot, owner) for slot, owner in enumerate(known.owners)}
        if len({*owners.values()}) == known.shards:
            return moves
        return {slot: known.owners[other] for slot, other in zip(slots, [*slots[1:], slots[0]], strict=True)}

    def _adopted(self) -> int:
        with reading(self._sink) as connection:
            return connection.execute(select(func.max(shard_changes.c.version))).scalar_one() or 0


def retried(change: Callable[[], Changed]) -> Changed:
    """Make a change of the shards; another process may make one at the same moment."""
    for _ in range(20):
        with suppress(StoreUnavailableError):
            return change()
    raise AssertionError("the shards could not be changed")


def of_key(rows: list[Held], key: str) -> list[Held]:
    return [row for row in rows if row.key == key]


@pytest.fixture
def processes(sink: Engine) -> Iterator[Processes]:
    made = Processes(sink, "keep")
    yield made
    made.kill_all()


def test_any_history_of_shards_in_processes_equals_that_of_one_shard(
    sink: Engine, new_site: NewSite, follow: Follow, processes: Processes
) -> None:
    seed = int(os.environ.get("LRQ_TEST_SEED", secrets.randbits(32)))
    print(f"LRQ_TEST_SEED={seed}")
    chance = random.Random(seed)
    single = new_site("kyoto")
    for engine in (sink, single):
        held.metadata.create_all(engine)
    sites = Sites(sink, single, chance)
    sites.receive(10)
    follow(Keep(), engine=single)
    set_shards(sink, "policy", 4)
    for _ in range(2):
        processes.start()
    moves = Moves(sites, chance)
    acts = ["shards", "shards", "kill", "kill", "lose", "snapshot", "settle"]
    planned = [*acts, *chance.choices(acts, k=MOMENTS - len(acts))]
    chance.shuffle(planned)
    for act in planned:
        sites.receive(chance.randrange(5, 40))
        moves.make(MOVES_AT_ONCE)
        match act:
            case "shards":
                moves.divide(chance.randrange(1, 6), chance.choice(PARTITIONERS))
            case "kill":
                processes.kill(chance)
                processes.start()
            case "lose":
                sites.lose()
            case "snapshot":
                sites.snapshot()
            case "settle":
                sites.settle()
    moves.divide(3, chance.choice(PARTITIONERS))
    moves.make(MOVES - moves.made)
    assert moves.made == MOVES
    sites.settle()
    sites.check()
