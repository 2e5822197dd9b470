"""Random sequences of writes, snapshots, restarts, lost connections and trimming end with the same state."""

import random
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from lr_server import LogReplicationServer
from tests.system import counters
from tests.system.faulty import UnreliableSink
from tests.system.world import Recorder, World, in_log_sync
from tests.waiting import eventually

#: The items that each site receives; some go to both sites.
ITEMS = {"tokyo": range(16), "lima": range(8, 24)}
ACTIONS = 40


class Owed(counters.Items):
    """A snapshot provider that sends each site its own items."""

    def provide_full_state_data(self, context: Any) -> None:
        with context.snapshot.connect() as connection:
            for item, version in connection.execute(select(counters.items).order_by(counters.items.c.item)):
                if item in ITEMS[context.destination]:
                    context.transmit(counters.entry(item, version))
        context.mark_completed()


class History:
    """One source and two sinks, with the events of a history as methods."""

    def __init__(self, world: World, chance: random.Random) -> None:
        self.world = world
        self.chance = chance
        self.share = 0.0
        counters.create(world.site("paris"), 24)
        world.provide("paris", Owed(), block_rows=3)
        self.sinks: dict[str, LogReplicationServer] = {}
        self.heard: dict[str, Recorder] = {name: world.subscribe(name) for name in ITEMS}
        for name in ITEMS:
            self.restart_sink(name)
        world.begun("paris", *ITEMS)
        self.paris = self.begin_source()

    def begin_source(self) -> LogReplicationServer:
        small = {"max_batch_bytes": 64, "tick_rows": self.chance.choice([2, 50]), "segment_bytes": 1}
        quick = {"retry_first_seconds": 0.005, "retry_cap_seconds": 0.02, "slow_retry_seconds": 0.05}
        kept = {"retention_seconds": self.chance.choice([1e-6, 3600.0])}
        peers = {name: f"local:{name}" for name in ITEMS}
        return self.world.server("paris", listen=[], peers=peers, **small, **quick, **kept)

    # --- the events -------------------------------------------------------------------------------------------

    def write(self) -> None:
        for _ in range(self.chance.randint(1, 12)):
            with Session(self.world.site("paris")) as session:
                for item in sorted(self.chance.sample(range(24), self.chance.randint(1, 5))):
                    to = [name for name, items in ITEMS.items() if item in items]
                    counters.change(session, self.world.client, item, to)
                if self.chance.random() < 0.1:
                    session.rollback()
                else:
                    session.commit()

    def order_snapshot(self) -> None:
        self.world.request_snapshots("paris", *self.chance.choice([["tokyo"], ["lima"], ["tokyo", "lima"], []]))

    def trim(self) -> None:
        self.paris._source.trim()

    def restart_source(self) -> None:
        self.paris.stop()
        if self.chance.random() < 0.5:
            self.write()
        self.paris = self.begin_source()

    def restart_sink(self, name: str = "") -> None:
        name = name or self.chance.choice(list(ITEMS))
        if name in self.sinks:
            self.sinks[name].stop()
        self.world.behind(name, lambda sink: UnreliableSink(sink, self.chance, share=self.share))
        self.sinks[name] = self.world.servers[-1]

    def lose_connections(self) -> None:
        self.share = self.chance.choice([0.0, 0.05, 0.2])

    def let_it_settle(self) -> None:
        in_log_sync(self.paris, *ITEMS)
        self.paris.drain(timeout=20)

    def happen(self) -> Iterator[str]:
        """Run `ACTIONS` random events; yield the name of each before it runs."""
        things = [self.write] * 6 + [self.trim] * 3 + [self.let_it_settle, self.lose_connections]
        things += [self.order_snapshot, self.restart_source, self.restart_sink]
        for _ in range(ACTIONS):
            thing = self.chance.choice(things)
            yield thing.__name__
            thing()


@pytest.mark.timeout(180)
def test_after_any_random_history_every_site_has_its_items_at_the_newest_version(
    world: World, chance: random.Random
) -> None:
    history = History(world, chance)
    for name in history.happen():
        print(name, end=" ")
    history.share = 0.0
    for name in ITEMS:
        history.restart_sink(name)
    history.write()
    versions = counters.versions(world.site("paris"))
    for name, recorder in history.heard.items():
        owed = {item: versions[item] for item in ITEMS[name]}
        eventually(lambda recorder=recorder, owed=owed: replayed(recorder) == owed, timeout=60)


def replayed(recorder: Recorder) -> dict[int, int]:
    heard = list(recorder.heard.get("paris", []))
    return counters.replay(heard)
