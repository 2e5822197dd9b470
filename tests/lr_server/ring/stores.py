"""Stores of a token on SQLite files, and ticks to write there."""

import struct
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from sqlalchemy import Engine, text

from lr_server.protocol.agreement.effects import KeepPromise, KeepTicks
from lr_server.protocol.agreement.record import founders
from lr_server.ring.founding import found
from lr_server.ring.store import TokenStore, mark_of
from lr_server.ring.witness import StoreWitness
from queues.destinations import destination_set
from queues.names import ClientName
from queues.send_log.outbox import NewEntry, SourceTransaction
from queues.send_log.ring.tick_contents import TickContent, TickStamp, content_after, seal_after

TOKEN = 7
CLIENT = ClientName("policy")
UIDS = (101, 102, 103)
_numbers = count(1)


def stamp() -> TickStamp:
    number = next(_numbers)
    return TickStamp(1_000_000 + number, number)


def witness_path(engine: Engine) -> Path:
    return Path(f"{engine.url.database}.witness")


def steps_of(witness: Path) -> list[int]:
    """Return the steps in the file of a witness, oldest first; the file may be open elsewhere."""
    content = witness.read_bytes()
    slots = [struct.unpack_from("<QQ", content, place) for place in (0, 4_096) if len(content) >= place + 16]
    return [step for _, step in sorted(slots)]


def open_store(engine: Engine, token: int = TOKEN) -> TokenStore:
    """Open the store of an initialised database, with its witness beside the file."""
    return TokenStore(engine, token, StoreWitness(witness_path(engine)))


def reopen(engine: Engine, store: TokenStore) -> TokenStore:
    """Open the store again, as after the end of its process."""
    store.close()
    return open_store(engine)


def new_store(engine: Engine, rank: int = 0) -> TokenStore:
    """Return the store of a founder on an initialised database."""
    store = open_store(engine)
    found(store, founders(UIDS)[rank])
    return store


def new_entry(payload: bytes, *destinations: str, client: ClientName = CLIENT, **fields: str | None) -> NewEntry:
    return NewEntry(payload, destination_set(client, destinations or ["tokyo"]), **fields)


def transaction(*payloads: bytes, to: Sequence[str] = ("tokyo",), **fields: str | None) -> SourceTransaction:
    return SourceTransaction(CLIENT, [new_entry(payload, *to, **fields) for payload in payloads])


def keep_after(after: int, contents: Sequence[TickContent], *stores: TokenStore) -> None:
    for store in stores:
        store.keep(KeepTicks(after, tuple(map(mark_of, contents))), contents)


def begin(generation: int, *stores: TokenStore) -> TickContent:
    """Promise *generation* and store its seal at each of *stores*, whose logs are equal."""
    end = stores[0].end()
    seal = seal_after(end, generation, f"branch-{generation}-{next(_numbers)}", stamp())
    for store in stores:
        store.keep(KeepPromise(generation))
    keep_after(end.tick.number, [seal], *stores)
    return seal


def take(transactions: Sequence[SourceTransaction], *stores: TokenStore) -> TickContent:
    """Store the next tick at each of *stores*, whose logs are equal."""
    end = stores[0].end()
    content = content_after(end, transactions, stamp())
    keep_after(end.tick.number, [content], *stores)
    return content


LOG_TABLES = (
    "lrq_ticks", "lrq_branches", "lrq_site", "lrq_log_head", "lrq_ring_generations", "lrq_tag_sets",
    "lrq_tag_set_members", "lrq_ring_productions", *(f"lrq_log_entries_{number}" for number in range(8)),
)  # fmt: skip
#: Local times, and local notes about the use of a destination set: members differ there.
LOCAL = {
    "lrq_branches": {"created_us"},
    "lrq_site": {"created_us"},
    "lrq_log_head": {"opened_us"},
    "lrq_tag_sets": {"shared", "last_seq"},
}


def log_rows(engine: Engine) -> dict[str, list[dict[str, object]]]:
    """Return all rows of the log, without local columns."""
    found = {}
    with engine.connect() as connection:
        for name in LOG_TABLES:
            rows = connection.execute(text(f"SELECT * FROM {name} ORDER BY 1, 2")).mappings()
            found[name] = [{key: row[key] for key in row if key not in LOCAL.get(name, ())} for row in rows]
    return found
