"""Entries arrive in the order in which their transactions locked the rows that they changed.

Writers enqueue *before* they lock their rows, so an entry's id says nothing about its place. A counter in each row
gives the expected order: the transaction that locks the row first gets the lower number.

See docs/design.md, "The order of commits".
"""

import random
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import groupby

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, Text, insert, select, text, update
from sqlalchemy.orm import Session

from queues.clock import SYSTEM_CLOCK
from tests.system.world import World
from tests.waiting import eventually

WRITERS = 16
ROWS = 12
SITES = ("tokyo", "lima", "osaka")

metadata = MetaData()
accounts = Table("app_accounts", metadata, Column("row", Integer, primary_key=True), Column("locked", Integer))
#: The committed entries, each with its place in the history of its row.
history = Table(
    "app_history",
    metadata,
    Column("entry", Text, primary_key=True),
    Column("row", Integer),
    Column("locked", Integer),
    Column("destinations", Text),
)


class Writer:
    """An application thread that writes *count* transactions of one to three entries."""

    def __init__(self, world: World, name: int, seed: int, count: int) -> None:
        self._world = world
        self._name = name
        self._chance = random.Random(seed)
        self._count = count
        self._never = threading.Event()
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        for number in range(self._count):
            with Session(self._world.site("paris")) as session:
                self._write(session, f"{self._name}/{number}")
                if self._chance.random() < 0.05:
                    session.rollback()
                else:
                    session.commit()

    def _write(self, session: Session, transaction: str) -> None:
        chance = self._chance
        entries = [f"{transaction}/{part}" for part in range(chance.randint(1, 3))]
        to = [chance.sample(SITES, chance.randint(1, len(SITES))) for _ in entries]
        for entry, destinations in zip(entries, to, strict=True):
            self._world.client.transmit_log_entry_message(session, entry.encode(), destinations)
        self._linger(0.02)
        # Sorted: locks in different orders would deadlock.
        rows = sorted(chance.sample(range(ROWS), len(entries)))
        for entry, destinations, row in zip(entries, to, rows, strict=True):
            raised = update(accounts).where(accounts.c.row == row).values(locked=accounts.c.locked + 1)
            locked = session.execute(raised.returning(accounts.c.locked)).scalar_one()
            written = {"entry": entry, "row": row, "locked": locked, "destinations": " ".join(destinations)}
            session.execute(insert(history), written)
        self._linger(0.01)

    def _linger(self, longest: float) -> None:
        """Wait now and then, for at most *longest* seconds."""
        if self._chance.random() < 0.15:
            SYSTEM_CLOCK.wait(self._never, self._chance.random() * longest)


class NaiveReader:
    """The popular outbox reader, `id > last`; the test shows that this reader loses entries on PostgreSQL."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._last = 0
        self._stop = threading.Event()
        self.read: list[str] = []
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._stop.is_set():
            self._look()
            self._stop.wait(0.002)
        self._look()

    def _look(self) -> None:
        everywhere = " UNION ALL ".join(
            f"SELECT id, payload FROM lrq_log_entries_{slot} WHERE id > :last" for slot in range(8)
        )
        with self._world.site("paris").connect() as connection:
            for found in connection.execute(text(f"{everywhere} ORDER BY id"), {"last": self._last}):
                self._last = found.id
                self.read.append(bytes(found.payload).decode())

    def stop(self) -> None:
        self._stop.set()
        self.thread.join()


def misplaced(delivered: Iterable[str], place: dict[str, tuple[int, int]]) -> int:
    """Count the entries that arrive after a later entry of the same row."""
    newest: dict[int, int] = defaultdict(int)
    count = 0
    for entry in delivered:
        row, locked = place[entry]
        count += locked < newest[row]
        newest[row] = max(newest[row], locked)
    return count


def interleaved(delivered: Iterable[str]) -> list[str]:
    """Return the transactions whose entries are interrupted by another transaction's."""
    runs = [transaction for transaction, _ in groupby(delivered, key=lambda entry: entry.rpartition("/")[0])]
    return [transaction for transaction, count in Counter(runs).items() if count > 1]


@pytest.mark.timeout(240)
def test_entries_enqueued_before_the_lock_arrive_in_the_order_of_the_locks(world: World, chance: random.Random) -> None:
    engine = world.site("paris")
    on_postgresql = engine.dialect.name == "postgresql"
    metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(insert(accounts), [{"row": row, "locked": 0} for row in range(ROWS)])
    recorders = {site: world.subscribe(site) for site in SITES}
    paris = world.link("paris", *SITES, initial_sync="log")
    count = 60 if on_postgresql else 25
    naive = NaiveReader(world)
    writers = [Writer(world, name, chance.randrange(10**9), count) for name in range(WRITERS)]
    naive.thread.start()
    for writer in writers:
        writer.thread.start()
    for writer in writers:
        writer.thread.join()
    naive.stop()
    paris.drain(timeout=60)

    with engine.connect() as connection:
        committed = connection.execute(select(history)).all()
    place = {row.entry: (row.row, row.locked) for row in committed}
    owed = {site: {row.entry for row in committed if site in row.destinations.split()} for site in SITES}
    for site, recorder in recorders.items():
        eventually(lambda recorder=recorder, site=site: len(recorder.log("paris")) >= len(owed[site]))
        delivered = [payload.decode() for payload in recorder.log("paris")]
        assert len(delivered) == len(set(delivered)), f"{site} got entries twice"
        assert set(delivered) == owed[site], f"{site} lost entries or got entries of other sites"
        assert misplaced(delivered, place) == 0
        assert interleaved(delivered) == []

    lost = len(place.keys() - set(naive.read))
    wrong = misplaced((entry for entry in naive.read if entry in place), place)
    print(f"{len(place)} entries; `id > last` lost {lost} and misplaced {wrong}")
    if on_postgresql:
        assert lost > 0
        assert wrong > 0
    else:
        # SQLite has one writer at a time, from its first statement on: ids are in the order of commits.
        assert (lost, wrong) == (0, 0)
