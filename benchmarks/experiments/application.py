"""The cost of `transmit` for an application: its transactions against plain INSERTs of the same bytes.

Clients are processes. A server runs only before, so that the database has numbered the set of destinations.
"""

from collections.abc import Callable, Sequence
from typing import Final

from sqlalchemy import text
from sqlalchemy.orm import Session

import queues
from benchmarks.bench import Bench
from benchmarks.cluster import pause
from benchmarks.contenders.lrq_sites import CLIENT, LrqOnPostgreSQL, messages
from benchmarks.crew import Crew
from benchmarks.stream import Stream
from benchmarks.workload import Entry, Workload
from lr_client import RoutingQueueSenderClient
from queues.clock import SYSTEM_CLOCK

NAME: Final = "application"
_TABLE = "CREATE TABLE plain (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, payload bytea NOT NULL)"
_INSERT = text("INSERT INTO plain (payload) VALUES (:payload)")
_LEFT: Final = 0.002

Write = Callable[[Session, Sequence[Entry]], object]


def insert_one_by_one(session: Session, entries: Sequence[Entry]) -> None:
    """Insert with one statement per entry."""
    for entry in entries:
        session.execute(_INSERT, {"payload": entry.payload})


def insert_in_bulk(session: Session, entries: Sequence[Entry]) -> None:
    """Insert all entries with one call."""
    session.execute(_INSERT, [{"payload": entry.payload} for entry in entries])


def transmit_one_by_one(session: Session, entries: Sequence[Entry]) -> None:
    """Transmit with one call per entry."""
    sender = RoutingQueueSenderClient(CLIENT)
    for message in messages(entries):
        sender.transmit_log_entry_message(session, message.payload, message.destinations)


def transmit_in_bulk(session: Session, entries: Sequence[Entry]) -> None:
    """Transmit all entries with one call."""
    RoutingQueueSenderClient(CLIENT).transmit_log_entry_messages(session, messages(entries))


_WAYS: Final[dict[tuple[str, str], Write]] = {
    ("INSERT", "one by one"): insert_one_by_one,
    ("transmit", "one by one"): transmit_one_by_one,
    ("INSERT", "in bulk"): insert_in_bulk,
    ("transmit", "in bulk"): transmit_in_bulk,
}


def client(begin: float, number: int, url: str, write: Write, seconds: float, rest: float) -> int:
    """Commit transactions for *seconds* from *begin* on; return their number."""
    engine = queues.create_engine(url)
    entries = [Workload(1).entry(number * 10 + each) for each in range(10)]
    with Session(engine) as session, session.begin():
        write(session, entries)
    pause(begin - SYSTEM_CLOCK.monotonic())
    done = 0
    while SYSTEM_CLOCK.monotonic() < begin + seconds:
        with Session(engine) as session, session.begin():
            write(session, entries)
            pause(rest)
        done += 1
    engine.dispose()
    return done


def measure(bench: Bench) -> None:
    """Measure the transactions per second of 1, 4 and 16 clients."""
    lrq = LrqOnPostgreSQL()
    with bench.running(lrq, 1, NAME):
        stream = Stream(lrq, Workload(10))
        stream.write(20)
        stream.wait()
        lrq.source.stop()
        url = lrq.engine.url.render_as_string(hide_password=False)
        with lrq.engine.begin() as connection:
            connection.execute(text(_TABLE))
        with Crew(16) as crew:
            _rounds(bench, crew, url)


def _rounds(bench: Bench, crew: Crew, url: str) -> None:
    seconds = bench.pick(0.5, 3.0)
    # Compared settings come one after the other, because the machine's pace changes from minute to minute.
    settings = [(way, clients, rest) for rest in (0.0, _LEFT) for clients in (1, 4, 16) for way in _WAYS]
    for _, (way, clients, rest) in bench.rounds(settings):
        contender, how = way
        bench.place.cluster.settle()
        done = crew.do(clients, client, url, _WAYS[way], seconds, rest)
        setting = f"{clients} client{'s' if clients > 1 else ''}{', 2 ms left' if rest else ''}, {how}"
        bench.say(f"{contender}: {setting}")
        bench.book.add(NAME, setting, contender, **{"transactions/s": sum(done) / seconds})
