"""The bars of all experiments (payloads of 1 KiB, ten entries per transaction)."""

from collections.abc import Iterator
from typing import Final

from benchmarks.bars import LOGICAL, OURS, Bar, Number

#: Settings of the experiment `deliveries`.
ONE: Final = "1 destination"
ALL: Final = "8 destinations, all to all"
THREE: Final = "8 destinations, each entry to 3"

RATE: Final = "deliveries/s"
CPU: Final = "CPU s per 1,000"

#: A suffix of a contender's name: the CPU of the application and PostgreSQL, without the contender's processes.
WITHOUT_SERVERS: Final = ", its servers not counted"

#: Floors are no contenders: they replicate nothing, or do less than the task.
TRANSFER: Final = "bare transfer"
FLOORS: Final = ("INSERT alone", "bare COPY", TRANSFER)
RELAY: Final = "bare relay"
TICK_RELAY: Final = "bare relay with ticks"

#: The contender of the experiment `applied`: lrq with a subscriber for each destination.
APPLIED: Final = "lrq, applied by a listener"
SYNCED_JETSTREAM: Final = "NATS JetStream (synced)"
JETSTREAM: Final = "NATS JetStream (no sync)"
#: Three servers with a replica each.
#: A ring of three servers, and one that has lost a follower.
RING: Final = "lrq ring"
RING_OF_TWO: Final = "lrq ring, one follower lost"
#: A ring that answers after both followers, and one server without a ring, which answers after its own disk.
RING_OF_THREE_DISKS: Final = "lrq ring, both followers acknowledge"
NO_RING: Final = "lrq ingest, SQLite, no follower"
#: Three rings of the same three machines, nine servers in all.
RINGS: Final = "lrq, three rings"
REPLICATED_JETSTREAM: Final = "NATS JetStream (3 replicas, synced)"

#: The setting and the yardstick of the experiment `stored`.
UNAPPLIED: Final = "received and not applied"
ONE_KIB: Final = "1 KiB"

#: The requests that one message carries in the experiment `ingest`.
TOGETHER: Final = 64
#: Producers that send each request in a message of its own. The second one's server stores nothing.
INGEST_FLOORS: Final = ("lrq ingest, one request a message", "gRPC alone, one request a message")


def _application() -> Iterator[Bar]:
    for clients in (1, 4, 16):
        for rest in ("", ", 2 ms left"):
            for how in ("one by one", "in bulk"):
                setting = f"{clients} client{'s' if clients > 1 else ''}{rest}, {how}"
                yield Bar("application", "transactions/s", Number(setting, "transmit"), Number(setting, "INSERT"), 0.85)


def _deliveries() -> Iterator[Bar]:
    for setting, bound in ((ONE, 1.1), (ALL, 2.0), (THREE, 1.6)):
        yield Bar("deliveries", RATE, Number(setting, OURS), Number(setting, LOGICAL), bound, floors=FLOORS)
    # With entries for few sites the writer weighs most, so a copy of rows is the measure there.
    for setting, other, bound in ((ALL, LOGICAL, 0.48), (THREE, TRANSFER, 0.8)):
        ours, theirs = Number(setting, OURS), Number(setting, other)
        yield Bar("deliveries", CPU, ours, theirs, bound, False, (*FLOORS, OURS + WITHOUT_SERVERS))
    peers = (("PgQ, best loop", 1.3), ("PgQ, Python consumer", 3.0), ("pgqueuer", 8.0), ("procrastinate", 20.0))
    for peer, bound in peers:
        yield Bar("deliveries", RATE, Number(ALL, OURS), Number(ALL, peer), bound)


def _latency() -> Iterator[Bar]:
    often, seldom = "250 transactions/s", "3 transactions/s"
    for unit in ("p50 ms", "p99 ms"):
        ours, other = Number(often, OURS), Number(often, LOGICAL)
        yield Bar("latency", unit, ours, other, 4.0, at_least=False, floors=(RELAY, TICK_RELAY))
    yield Bar("latency", "p50 ms", Number(seldom, OURS), Number(seldom, TICK_RELAY), 1.3, at_least=False)


def _applied() -> Iterator[Bar]:
    yield Bar("applied", RATE, Number(ALL, APPLIED), Number(ALL, "PgQ, best loop"), 3.0)
    ours, other = Number(ALL, APPLIED), Number(ALL, SYNCED_JETSTREAM)
    yield Bar("applied", RATE, ours, other, 3.0, floors=(JETSTREAM,))


def _stored() -> Iterator[Bar]:
    for contender in (OURS, "lrq on SQLite"):
        ours, other = Number(UNAPPLIED, contender), Number(UNAPPLIED, ONE_KIB)
        yield Bar("stored", "KiB per entry", ours, other, 0.85, at_least=False)


def _growth() -> Iterator[Bar]:
    for unit, bound, at_least in (("source bytes per entry", 1.05, False), ("transactions/s", 0.9, True)):
        for many in (64, 500):
            ours, one = Number(f"{many} destinations", OURS), Number("1 destination", OURS)
            yield Bar("growth", unit, ours, one, bound, at_least)
    ours, one = Number("64 destinations", OURS), Number("1 destination", OURS)
    yield Bar("growth", "source CPU ms per entry", ours, one, 8.0, at_least=False)


def _backlog() -> Iterator[Bar]:
    for many in ("100,000", "1,000,000"):
        ours, few = Number(f"{many} entries", OURS), Number("10,000 entries", OURS)
        yield Bar("backlog", "entries/s", ours, few, 0.9)
        yield Bar("backlog", "server MiB", ours, few, 1.2, at_least=False)


def _sizes() -> Iterator[Bar]:
    for many in ("100,000", "1,000,000"):
        ours, few = Number(f"{many} entries", OURS), Number("10,000 entries", OURS)
        yield Bar("sizes", "tables MiB", ours, few, 2.0, at_least=False)
    # Dead rows must not grow with time: half of the time leaves as many as the whole.
    held = Number("whole time, snapshot held", OURS), Number("half the time, snapshot held", OURS)
    yield Bar("sizes", "dead rows", *held, 1.1, at_least=False)


def _others() -> Iterator[Bar]:
    one = "1 destination"
    yield Bar("sqlite", "entries/s", Number(one, "lrq on SQLite"), Number(one, "bare inserts"), 0.95)
    yield Bar(
        "idle",
        "CPU of a core",
        Number("100 sessions", OURS),
        Number("100 sessions", "one percent"),
        1.0,
        at_least=False,
    )
    ours = f"lrq ingest, {TOGETHER} requests a message"
    for database, other, bound in (("SQLite", "one commit a message", 40.0), ("PostgreSQL", "transmit in bulk", 0.8)):
        reached, against = Number(database, ours), Number(database, other)
        yield Bar("ingest", "messages/s", reached, against, bound, floors=INGEST_FLOORS)
    yield Bar("subscriber", "entries/s", Number("batches of 1,000", OURS),
              Number("batches of 1,000", "DELETE … RETURNING"), 1.2)  # fmt: skip


def _servers() -> Iterator[Bar]:
    for contender in (OURS, "lrq on SQLite"):
        yield Bar("servers", "deliveries/s", Number("2 servers", contender), Number("1 server", contender), 1.5)


def _ring() -> Iterator[Bar]:
    whole = Number("64 producers", RING)
    yield Bar("ring", "messages/s", whole, Number("64 producers", REPLICATED_JETSTREAM), 1.0)
    yield Bar("ring", "messages/s", Number("64 producers", RING_OF_TWO), whole, 0.8)


BARS: Final[tuple[Bar, ...]] = (
    *_application(), *_deliveries(), *_applied(), *_latency(), *_growth(), *_backlog(), *_sizes(), *_stored(),
    *_others(), *_servers(), *_ring(),
)  # fmt: skip
