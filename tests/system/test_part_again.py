"""One part of a site's data is sent again while writers go on: the programs of `docs/operating.md`."""

import json
import random
import threading
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine, event, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from lr_client import RoutingQueueSenderClient, subscribe
from queues.clock import SYSTEM_CLOCK
from tests.house.page_blocks import take
from tests.system.world import World
from tests.waiting import eventually

PARTS, GOODS = take(__name__, "docs/operating.md", "python", begin=r"# \w+\.py, at the s")

SHOPS = [f"shop {number}" for number in range(16)]
NAMES = [f"good {number}" for number in range(20)]
CREATE = "CREATE TABLE goods (shop TEXT, name TEXT, price INTEGER, PRIMARY KEY (shop, name))"
CHANGE = "UPDATE goods SET price = :price WHERE shop = :shop AND name = :name"


def names_of(program: str) -> dict[str, Any]:
    """Run a program of the page; return its names."""
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile(program, "operating.md", "exec"), names)
    return names


def goods_of(engine: Engine) -> set[tuple[str, str, int]]:
    with engine.connect() as connection:
        return {(shop, name, price) for shop, name, price in connection.execute(text("SELECT * FROM goods"))}


class Shops:
    """Goods at paris, their copies at tokyo and lima, and the part of each entry that has arrived there."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.paris, self.tokyo, self.lima = (world.site(name) for name in ("paris", "tokyo", "lima"))
        for engine in (self.paris, self.tokyo, self.lima):
            with engine.begin() as connection:
                connection.execute(text(CREATE))
                rows = [{"shop": shop, "name": name, "price": 0} for shop in SHOPS for name in NAMES]
                connection.execute(text("INSERT INTO goods VALUES (:shop, :name, :price)"), rows)
        self.send_part: Callable[[Session, str, str], None] = names_of(PARTS)["send_part"]
        self.sender = RoutingQueueSenderClient("policy")
        self.arrived: dict[str, list[str]] = {}
        for name in ("tokyo", "lima"):
            self._follow(name)
        world.link("paris", "tokyo", "lima", initial_sync="log")

    def _follow(self, name: str) -> None:
        listening = names_of(GOODS)["apply"]
        arrived = self.arrived.setdefault(name, [])
        applied = listening.process_updates_in_log_entry_sync

        def noting(session: Session, source: str, entries: Any) -> Any:
            parts = [entry.partition_key for entry in entries]
            # A call that is rolled back is repeated.
            event.listen(session, "after_commit", lambda _: arrived.extend(parts), once=True)
            return applied(session, source, entries)

        listening.process_updates_in_log_entry_sync = noting
        made = subscribe(self.world.site(name), listening, poll_interval=0.05)
        self.world._stack.callback(made.close)

    def change(self, session: Session, shop: str, name: str, price: int) -> None:
        """Write a price, and transmit it to both sites."""
        session.execute(text(CHANGE), {"shop": shop, "name": name, "price": price})
        payload = json.dumps([name, price]).encode()
        self.sender.transmit_log_entry_message(session, payload, ["tokyo", "lima"], partition_key=shop)

    def write(self, seed: int, until: threading.Event) -> int:
        """Change random goods in transactions of one to three; return the number of changes."""
        chance = random.Random(seed)
        written = 0
        while not until.is_set():
            changes = chance.randint(1, 3)
            try:
                with Session(self.paris) as session, session.begin():
                    # In one order, so that no two writers wait for each other.
                    for shop, name in sorted((chance.choice(SHOPS), chance.choice(NAMES)) for _ in range(changes)):
                        self.change(session, shop, name, chance.randrange(10**6))
                        SYSTEM_CLOCK.wait(until, 0.002 * chance.random())
            except OperationalError:
                # SQLite was busy for too long: nothing is written.
                continue
            written += changes
        return written

    def spoil(self, shop: str) -> None:
        """Make the goods of one shop wrong at tokyo: some changed, some gone, one too many."""
        with self.tokyo.begin() as connection:
            if connection.dialect.name == "postgresql":
                # Without it, a deadlock with the listener could end this transaction.
                connection.execute(text("LOCK TABLE goods IN EXCLUSIVE MODE"))
            connection.execute(text("UPDATE goods SET price = -1 WHERE shop = :shop"), {"shop": shop})
            gone = "DELETE FROM goods WHERE shop = :shop AND name IN ('good 3', 'good 4')"
            connection.execute(text(gone), {"shop": shop})
            connection.execute(text("INSERT INTO goods VALUES (:shop, 'stranger', 1)"), {"shop": shop})

    def are_equal(self) -> bool:
        return goods_of(self.paris) == goods_of(self.tokyo) == goods_of(self.lima)


def test_a_part_is_sent_again_while_writers_go_on(world: World) -> None:
    seed = random.randrange(10**6)
    print("seed", seed)
    shops = Shops(world)
    done = threading.Event()
    written: list[int] = []
    writers = [
        threading.Thread(target=lambda number=number: written.append(shops.write(seed + number, done)))
        for number in range(3)
    ]
    for writer in writers:
        writer.start()
    try:
        eventually(lambda: len(shops.arrived["tokyo"]) > 30)
        for shop in SHOPS[:4]:
            shops.spoil(shop)
            with Session(world.site("paris")) as session, session.begin():
                shops.send_part(session, shop, "tokyo")
                # A change that is committed meanwhile would come before these rows, and be undone by them.
                SYSTEM_CLOCK.wait(done, 0.05)
    finally:
        done.set()
        for writer in writers:
            writer.join(60)
    eventually(shops.are_equal)
    again = 4 * (len(NAMES) + 1)
    eventually(lambda: [len(shops.arrived[name]) for name in ("lima", "tokyo")] == [sum(written), sum(written) + again])


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_only_the_part_travels(world: World) -> None:
    shops = Shops(world)
    shops.spoil("shop 7")
    with Session(world.site("paris")) as session, session.begin():
        shops.send_part(session, "shop 7", "tokyo")
    eventually(shops.are_equal)
    eventually(lambda: shops.arrived == {"tokyo": ["shop 7"] * (len(NAMES) + 1), "lima": []})
