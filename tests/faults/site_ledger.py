"""The records of a run with several servers, and the judgement over them.

Triggers record each new leader of a range at the source. At the sinks, triggers record each change of a session's
generation and position. The record is part of the transaction of the change.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from sqlalchemy import Column, Engine, LargeBinary, MetaData, Table, Text, insert, text
from sqlalchemy.orm import Session

from discovery.ranges import range_of
from lr_client import RoutingQueueSenderClient
from queues.database.tables.base import Number
from queues.receive.block_entries import LogEntries, ReceivedBlock
from tests.received import COUNT

source_metadata = MetaData()
#: The entries that writers committed, in a table of their own; `destinations` are sites between commas.
written = Table(
    "app_written",
    source_metadata,
    Column("n", Number, primary_key=True),
    Column("client", Text, nullable=False),
    Column("destinations", Text, nullable=False),
    Column("payload", LargeBinary, nullable=False),
)

_NOW = {
    "sqlite": "(julianday('now') - 2440587.5) * 86400.0",
    "postgresql": "extract(epoch FROM clock_timestamp())",
}
_NUMBER = {
    "sqlite": "integer PRIMARY KEY AUTOINCREMENT",
    "postgresql": "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
}


class Led(NamedTuple):
    """A server began to lead a range under a generation, at a time in seconds since 1970."""

    range: int
    server: str
    generation: int
    at: float = 0.0


class Moved(NamedTuple):
    """A sink stored a session's position, at a time in seconds since 1970."""

    client: str
    generation: int
    seq: int
    at: float


class Arrived(NamedTuple):
    """The record of one sink: its entries by client, in order, and the moves of its sessions, oldest first."""

    entries: Mapping[str, list[bytes]]
    moves: Mapping[str, list[Moved]]


def watch_leaders(source: Engine) -> None:
    """Create the writers' table, and record the leaders of ranges."""
    source_metadata.create_all(source)
    _record(source, "app_leaders", "lrq_ranges", {"number": "integer", "server": "text", "generation": "bigint"})


def watch_marks(sink: Engine) -> None:
    """Record the generation and position of each receive queue."""
    _record(sink, "app_marks", "lrq_receive_marks", {"queue_id": "integer", "generation": "bigint", "seq": "bigint"})


def _record(engine: Engine, table: str, watched: str, columns: Mapping[str, str]) -> None:
    dialect = engine.dialect.name
    kinds = ", ".join(f"{name} {kind}" for name, kind in columns.items())
    names, new = ", ".join(columns), ", ".join(f"NEW.{name}" for name in columns)
    keep = f"INSERT INTO {table} ({names}, at) VALUES ({new}, {_NOW[dialect]});"
    statements = [f"CREATE TABLE {table} (n {_NUMBER[dialect]}, {kinds}, at double precision)"]
    if dialect == "sqlite":
        statements += [
            f"CREATE TRIGGER {table}_{event} AFTER {event} ON {watched} BEGIN {keep} END"
            for event in ("insert", "update")
        ]
    else:
        body = f"BEGIN {keep} RETURN NULL; END"
        statements += [
            f"CREATE FUNCTION {table}_keep() RETURNS trigger LANGUAGE plpgsql AS '{body}'",
            f"CREATE TRIGGER {table}_keep AFTER INSERT OR UPDATE ON {watched}"
            f" FOR EACH ROW EXECUTE FUNCTION {table}_keep()",
        ]
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))


class Writer:
    """One thread's entries; the payload `name:number` has a number that only grows."""

    def __init__(self, engine: Engine, name: str, clients: Sequence[str], sinks: Sequence[str]) -> None:
        self._engine = engine
        self._name = name
        self._senders = [RoutingQueueSenderClient(client) for client in clients]
        self._sinks = sinks
        self._number = 0

    def write(self, chance: random.Random) -> None:
        """Transmit up to three entries of one client in one transaction; one in twenty is rolled back."""
        sender = chance.choice(self._senders)
        with Session(self._engine) as session:
            for _ in range(chance.randint(1, 3)):
                self._number += 1
                payload = f"{self._name}:{self._number}".encode()
                to = self._sinks if chance.randrange(3) else [chance.choice(self._sinks)]
                sender.transmit_log_entry_message(session, payload, to)
                row = {"client": sender.client_name, "destinations": ",".join(to), "payload": payload}
                session.execute(insert(written), row)
            if chance.random() < 0.05:
                session.rollback()
            else:
                session.commit()


def committed(source: Engine, sinks: Iterable[str]) -> dict[tuple[str, str], Counter[bytes]]:
    """Return the committed payloads of each session (client, sink)."""
    found: dict[tuple[str, str], Counter[bytes]] = defaultdict(Counter)
    with source.connect() as connection:
        for client, to, payload in connection.execute(text("SELECT client, destinations, payload FROM app_written")):
            for sink in set(to.split(",")).intersection(sinks):
                found[client, sink][bytes(payload)] += 1
    return found


def leaders(source: Engine, *, released: bool = False) -> list[Led]:
    """Return the leaders of ranges, oldest first; with *released*, also the ranges that became free."""
    query = text("SELECT number, server, generation, at FROM app_leaders ORDER BY n")
    with source.connect() as connection:
        found = [Led(row.number, row.server, row.generation, float(row.at)) for row in connection.execute(query)]
    return [led for led in found if led.server or released]


def received(sink: Engine) -> int:
    """Count the entries at a sink."""
    with sink.connect() as connection:
        return int(connection.execute(text(COUNT)).scalar_one())


def arrived(sink: Engine) -> Arrived:
    """Read the record of a sink."""
    entries, moves = defaultdict(list), defaultdict(list)
    order = "FROM {} JOIN lrq_receive_queues USING (queue_id) ORDER BY queue_id, {}"
    with sink.connect() as connection:
        blocks = ", ".join(ReceivedBlock._fields)
        found = connection.execute(text(f"SELECT client, {blocks} " + order.format("lrq_receive_blocks", "end_seq")))
        for client, *block in found:
            entries[client] += [row.payload for row in LogEntries(ReceivedBlock(*block)).rows(0, block[0])]
        columns = "SELECT client, generation, seq, at "
        for client, generation, seq, at in connection.execute(text(columns + order.format("app_marks", "n"))):
            moves[client].append(Moved(client, generation, seq, float(at)))
    return Arrived(entries, moves)


def problems_of_entries(session: str, sent: Counter[bytes], entries: Sequence[bytes]) -> list[str]:
    """Return the faults in the entries of one session; an empty list if each arrived once, in order. Pure."""
    found = []
    got = Counter(entries)
    if missing := sent - got:
        found.append(f"{session} lacks {missing.total()} entries, such as {min(missing)!r}")
    if more := got - sent:
        found.append(f"{session} has {more.total()} entries too many, such as {min(more)!r}")
    last: dict[bytes, int] = {}
    for payload in entries:
        name, _, number = payload.rpartition(b":")
        if int(number) <= last.get(name, 0):
            found.append(f"{session} has {payload!r} after number {last[name]}")
        last[name] = int(number)
    return found


def problems_of_order(client: str, one: Sequence[bytes], other: Sequence[bytes]) -> list[str]:
    """Return a fault if two sinks have the common entries of a client in different orders. Pure."""
    common = set(one) & set(other)
    if [entry for entry in one if entry in common] != [entry for entry in other if entry in common]:
        return [f"{client} has two orders at two sinks"]
    return []


def problems_of_leaders(led: Sequence[Led]) -> list[str]:
    """Return the faults in the leaders of ranges: each acquisition has a generation of its own, which grows. Pure."""
    found = []
    newest: dict[int, Led] = {}
    owner: dict[int, Led] = {}
    for each in led:
        before = newest.get(each.range)
        if before is not None and each.generation < before.generation:
            found.append(f"range {each.range} went back from generation {before.generation} to {each.generation}")
        other = owner.setdefault(each.generation, each)
        if other[:2] != each[:2]:
            found.append(f"generation {each.generation} was given to {other} and to {each}")
        newest[each.range] = each
    return found


def problems_of_moves(session: str, moves: Sequence[Moved], led: Sequence[Led], number: int) -> list[str]:
    """Return the faults in the moves of a session in range *number*: all go forward, under known leaders. Pure."""
    found = []
    known = {each.generation for each in led if each.range == number}
    for before, after in pairwise(moves):
        if after.generation < before.generation:
            found.append(f"{session} went back from generation {before.generation} to {after.generation}")
        if after.seq < before.seq:
            found.append(f"{session} went back from entry {before.seq} to {after.seq}")
    if unknown := {move.generation for move in moves if move.generation} - known:
        found.append(f"{session} moved under generations {sorted(unknown)}, which no leader of range {number} had")
    return found


def longest_standstill(moves: Iterable[Sequence[Moved]]) -> float:
    """Return the longest time in seconds between two moves of one session. Pure."""
    gaps = (after.at - before.at for each in moves for before, after in pairwise(each) if after.seq > before.seq)
    return max(gaps, default=0.0)


def problems(
    source: Engine, sinks: Mapping[str, Engine], sent: Mapping[tuple[str, str], Counter[bytes]], ranges: int
) -> list[str]:
    """Return all faults at the end of a run; *sent* are the payloads of each session (client, sink)."""
    led = leaders(source)
    records = {name: arrived(sink) for name, sink in sinks.items()}
    found = problems_of_leaders(led)
    for client in sorted({client for client, _ in sent}):
        for sink, record in records.items():
            session = f"{client} at {sink}"
            found += problems_of_entries(session, sent.get((client, sink), Counter()), record.entries.get(client, []))
            number = range_of(client, sink, ranges)
            found += problems_of_moves(session, record.moves.get(client, []), led, number)
        one, *others = (record.entries.get(client, []) for record in records.values())
        for other in others:
            found += problems_of_order(client, one, other)
    return found
