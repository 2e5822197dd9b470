"""Several rings on three machines share the keys: a machine is lost, and one ring becomes two."""

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from discovery.rings import ring_of
from lr_client.producer import ProducerMessage, RingsProducer
from queues.errors import ConfigurationError
from tests.system.ring_sites import RANKS, RingSite
from tests.system.world import Recorder, World
from tests.waiting import eventually

pytestmark = [pytest.mark.long, pytest.mark.processes, pytest.mark.timeout(600)]

KEYS = [f"meter-{number}" for number in range(8)]


@pytest.fixture(params=["sqlite"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Rings:
    """The rings of one application on three machines, and their common sink."""

    def __init__(self, world: World, stack: ExitStack, folder: Path) -> None:
        self._world, self._stack, self._folder = world, stack, folder
        self.sinks = {"tokyo": world.server("tokyo", listen=[f"ipc://{folder}/tokyo"]).endpoints[0]}
        self.all: list[RingSite] = []

    def add(self, site: str, rings: int) -> RingSite:
        """Write and found one more ring, which is not served yet."""
        ring = RingSite(self._world, self._stack, self._folder / site, self.sinks, site)
        ring.more_of_ring = f"rings = {rings}\n"
        for rank in RANKS:
            ring.write(rank)
        ring.found()
        self.all.append(ring)
        return ring

    def at(self, machine: int) -> Iterator[tuple[RingSite, int]]:
        """Give each ring with the rank of its member at the machine; each ring begins one machine later."""
        for number, ring in enumerate(self.all):
            yield ring, (machine - number) % len(RANKS)

    def producer(self, name: str) -> RingsProducer:
        named = {ring.site: ",".join(ring.members) for ring in self.all}
        return RingsProducer(named, client="policy", producer=name)


@pytest.fixture
def rings(world: World, tmp_path: Path) -> Iterator[Rings]:
    with ExitStack() as stack:
        yield Rings(world, stack, tmp_path)


def entry(key: str, number: int) -> list[ProducerMessage]:
    return [ProducerMessage(f"{key} {number}".encode(), ["tokyo"], partition_key=key)]


def send(producer: RingsProducer, numbers: Iterable[int], keys: Sequence[str] = KEYS) -> None:
    """Send one entry of each key for each number, many at once."""
    begun = [producer.submit(entry(key, number), timeout=120) for number in numbers for key in keys]
    assert all(each.result(180).sequence for each in begun)


def share_keys(ring: RingSite, rings: int) -> None:
    """Begin the servers of a ring again, one after the other, as one of *rings* rings."""
    ring.more_of_ring = f"rings = {rings}\n"
    for rank in reversed(RANKS):
        ring.kill(rank)
        ring.write(rank)
        ring.begin(rank)
        if rank:
            eventually(lambda: "`rings` differs" in ring.lrq("ring", "status")[1], timeout=180, interval=0.2)
    eventually(lambda: ring.lrq("ring", "status")[0] == 0, timeout=180, interval=0.2)
    ring.led_by(0)


def numbers_of(heard: Recorder, key: str) -> list[int]:
    """Return the numbers of a key in the order in which the sink has applied them, from any ring."""
    applied = [payload.decode().split() for _, payloads in heard.calls for payload in payloads]
    return [int(number) for name, number in applied if name == key]


def has_all(heard: Recorder, upto: int, keys: Sequence[str] = KEYS) -> bool:
    return all(len(numbers_of(heard, key)) >= upto for key in keys)


def test_all_keys_go_on_in_order_when_machines_are_lost(world: World, rings: Rings) -> None:
    for number in range(2):
        rings.add(f"paris-{number}", 2).begin(*RANKS)
    heard = world.subscribe("tokyo")
    with rings.producer("hub") as producer:
        send(producer, range(5))
        for lost in (0, 1):
            # Each of both machines leads one ring, and follows in the other.
            for ring, rank in rings.at(lost):
                ring.kill(rank)
            send(producer, range(5 * lost + 5, 5 * lost + 10))
            for ring, rank in rings.at(lost):
                ring.begin(rank)
            for ring in rings.all:
                ring.led_by(0)
        send(producer, range(15, 20))
    eventually(lambda: has_all(heard, 20), timeout=120)
    assert {key: numbers_of(heard, key) for key in KEYS} == {key: [*range(20)] for key in KEYS}
    for number, ring in enumerate(rings.all):
        mine = {key for key in KEYS if ring_of(key, 2) == number}
        assert {payload.decode().split()[0] for payload in heard.log(ring.site)} == mine


@pytest.mark.nightly
def test_half_of_the_keys_of_a_ring_move_to_a_new_ring_in_order(world: World, rings: Rings) -> None:
    first = rings.add("paris", 1)
    first.begin(*RANKS)
    moving = [key for key in KEYS if ring_of(key, 2) == 1]
    staying = [key for key in KEYS if key not in moving]
    assert moving
    assert staying
    heard, applies = Recorder(), [True]
    heard.obey = lambda *_: applies[0]
    world.subscribe("tokyo", heard, backoff=0.05, max_backoff=0.1)
    with rings.producer("earlier") as earlier:
        send(earlier, range(5))
        eventually(lambda: has_all(heard, 5), timeout=120)
        applies[0] = False
        # The steps of `lrq ring resize 2`. 1: the new ring is founded, and not served.
        second = rings.add("paris-1", 2)
        # 2: a producer of both rings may work from now on. Its moving keys wait.
        later = rings.producer("later")
        keys_of_later = [f"{key}/later" for key in KEYS]
        waiting = {key: later.submit(entry(key, 0), timeout=120) for key in keys_of_later}
        here = [key for key in keys_of_later if ring_of(key, 2) == 0]
        assert all(waiting[key].result(180) for key in here)
        send(earlier, range(5, 10))
        # 3: the first ring refuses keys that move, once all of its servers have begun again.
        share_keys(first, 2)
        with pytest.raises(ConfigurationError, match="belongs to ring 1, and this is ring 0 of 2"):
            earlier.send(entry(moving[0], 10), timeout=120)
        send(earlier, range(10, 15), staying)
    # 4: the sink has the entries, and has not applied them.
    eventually(lambda: first.lrq("drain", "--timeout", "0")[0] == 0, timeout=120, interval=0.2)
    assert "this member of the ring does not lead" in first.lrq("drain", "--timeout", "0", rank=2)[1]
    code, words = first.lrq("drain", "--applied", "--timeout", "0")
    assert (code, "policy to tokyo has applied" in words) == (3, True)
    assert not any(waiting[key].done() for key in keys_of_later if key not in here)
    applies[0] = True
    assert first.lrq("drain", "--applied", "--timeout", "120")[0] == 0
    eventually(lambda: all(numbers_of(heard, key) == [*range(10)] for key in moving))
    # 5: the new ring is served, and takes the keys that move.
    second.begin(*RANKS)
    with later:
        assert all(each.result(180) for each in waiting.values())
        send(later, range(10, 20), moving)
        send(later, range(15, 20), staying)
        send(later, range(1, 20), keys_of_later)
    every = [*KEYS, *keys_of_later]
    eventually(lambda: has_all(heard, 20, every), timeout=120)
    assert {key: numbers_of(heard, key) for key in every} == {key: [*range(20)] for key in every}
    assert {payload.decode().split()[0] for payload in heard.log("paris-1")} == {
        key for key in every if ring_of(key, 2) == 1
    }


class Sender(threading.Thread):
    """Sends the next number of each key again and again, with both rings once the first one refuses a key."""

    def __init__(self, rings: Rings) -> None:
        super().__init__(daemon=True)
        self._rings, self._ends = rings, threading.Event()
        self._producer = rings.producer("earlier")
        self.sent = 0
        self.has_both = False

    def run(self) -> None:
        while not self._ends.is_set():
            for key in KEYS:
                self._send(entry(key, self.sent))
            self.sent += 1
        self._producer.close()

    def _send(self, messages: list[ProducerMessage]) -> None:
        try:
            self._producer.send(messages, timeout=300)
        except ConfigurationError:
            assert not self.has_both
            self._producer.close()
            self._producer, self.has_both = self._rings.producer("later"), True
            self._producer.send(messages, timeout=300)

    def end(self) -> int:
        self._ends.set()
        self.join(300)
        return self.sent


@pytest.mark.nightly
def test_a_producer_that_sends_during_the_growth_stores_each_entry_once(world: World, rings: Rings) -> None:
    first = rings.add("paris", 1)
    first.begin(*RANKS)
    heard, sender = world.subscribe("tokyo"), Sender(rings)
    second = rings.add("paris-1", 2)
    sender.start()
    eventually(lambda: has_all(heard, 3), timeout=120)
    share_keys(first, 2)
    eventually(lambda: sender.has_both, timeout=180)
    assert first.lrq("drain", "--applied", "--timeout", "120")[0] == 0
    second.begin(*RANKS)
    reached = sender.sent
    eventually(lambda: sender.sent > reached + 3, timeout=180)
    count = sender.end()
    eventually(lambda: has_all(heard, count), timeout=120)
    assert {key: numbers_of(heard, key) for key in KEYS} == {key: [*range(count)] for key in KEYS}
