"""Snapshot and log side by side: each change arrives in exactly one of them."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.orm import Session

from lr_client import RoutingQueueSenderClient
from queues.clock import SYSTEM_CLOCK
from tests.system import counters
from tests.system.world import Messages, World, in_log_sync
from tests.waiting import eventually

ITEMS = 40


@contextmanager
def writing_to(world: World, site: str, to: list[str]) -> Iterator[threading.Event]:
    """Change items at *site* without pause until the block ends; the event is set after the first `ITEMS` changes."""
    sender = RoutingQueueSenderClient("policy")
    stop, some = threading.Event(), threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            began = SYSTEM_CLOCK.monotonic()
            with Session(world.site(site)) as session, session.begin():
                for _ in range(1 + number % 3):
                    counters.change(session, sender, number % ITEMS, to)
                    number += 1
            # On SQLite a writer that returns at once would overtake the waiting ones.
            stop.wait(SYSTEM_CLOCK.monotonic() - began)
            if number > ITEMS:
                some.set()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield some
    finally:
        stop.set()
        thread.join()


class Slow(counters.Items):
    """Waits for `go_on` in the middle of a snapshot, so that a test can write there."""

    def __init__(self) -> None:
        self.half = threading.Event()
        self.go_on = threading.Event()

    def before(self, item: int) -> None:
        if item == ITEMS // 2:
            self.half.set()
            assert self.go_on.wait(20)


def test_writes_during_a_snapshot_follow_as_log_entries_from_exactly_its_base(world: World) -> None:
    counters.create(world.site("paris"), ITEMS)
    provider = Slow()
    world.provide("paris", provider)
    tokyo = world.subscribe("tokyo")
    with writing_to(world, "paris", ["tokyo"]) as some:
        assert some.wait(20)
        paris = world.link("paris", "tokyo")
        assert provider.half.wait(20)
        some.clear()
        eventually(some.is_set)
        provider.go_on.set()
        eventually(lambda: len(tokyo.log("paris")) > ITEMS)
    paris.drain(timeout=20)
    eventually(lambda: counters.caught_up(tokyo.heard["paris"], world.site("paris")))
    assert tokyo.kinds("paris")[:3] == ["start 1", f"snapshot {ITEMS}", "complete 1"]
    assert len(tokyo.kinds("paris")) == 4
    assert any(version > 0 for _, version in map(counters.read, tokyo.snapshot("paris")))


def test_an_empty_snapshot_completes(world: World) -> None:
    world.provide("paris", Messages(lambda _: []))
    tokyo = world.subscribe("tokyo")
    world.begun("paris", "tokyo")
    paris = world.link("paris", "tokyo")
    eventually(lambda: tokyo.kinds("paris") == ["start 1", "complete 1"])
    in_log_sync(paris, "tokyo")
    world.transmit("paris", b"entry", to=["tokyo"])
    eventually(lambda: tokyo.kinds("paris") == ["start 1", "complete 1", "log 1"])
