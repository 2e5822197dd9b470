"""A database that is locked or full for a while: the status says so, no entry is lost."""

import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import event, text

from lr_server import LogReplicationServer
from queues.database import sqlite_locks
from tests.system.world import World, in_log_sync, sessions_of
from tests.waiting import eventually

# A separate process takes the lock, prints a line, and holds the lock until its input ends.
_HOLD_SQLITE = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()
"""


@contextmanager
def locked(world: World, site: str, table: str) -> Iterator[None]:
    """Lock *table* of a site (on SQLite the whole database) against writes of other connections."""
    engine = world.site(site)
    if engine.dialect.name == "postgresql":
        with engine.begin() as connection:
            connection.execute(text(f"LOCK TABLE {table} IN SHARE MODE"))
            yield
        return
    holder = [sys.executable, "-c", _HOLD_SQLITE, str(engine.url.database)]
    with subprocess.Popen(holder, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"locked\n"
        yield
        process.communicate()


@contextmanager
def full(world: World, server: LogReplicationServer, table: str) -> Iterator[None]:
    """Simulate a full disk for *server*: SQLite's page limit, or a trigger that raises PostgreSQL's `disk_full`."""
    if world.site("paris").dialect.name == "postgresql":
        site = server.status()["site"]
        world.execute(
            site,
            "CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN RAISE 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END $$",
        )
        world.execute(site, f"CREATE TRIGGER no_room BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION no_room()")
        yield
        world.execute(site, f"DROP TRIGGER no_room ON {table}")
        return

    def limit(connection, _record, _proxy) -> None:
        connection.execute(f"PRAGMA max_page_count = {1 if is_full else 2**30}")

    is_full = True
    for engine in (server._engines.work, server._engines.control):
        event.listen(engine, "checkout", limit)
    yield
    is_full = False


PAYLOADS = [random.Random(number).randbytes(100_000) for number in range(5)]


def test_a_locked_database_of_the_sink_delays_entries_and_loses_none(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.site("paris")  # connections of the test, made now, keep the long timeout
    monkeypatch.setattr(sqlite_locks, "BUSY_TIMEOUT", 0.1)
    recorder = world.subscribe("tokyo")
    paris = world.link("paris", "tokyo", initial_sync="log", stall_seconds=0.5, retry_cap_seconds=0.1)
    world.transmit("paris", b"before", to=["tokyo"])
    eventually(lambda: recorder.log("paris") == [b"before"])
    # Small ones: a large frame may be on a slow line, and its session waits longer.
    payloads = [payload[:100] for payload in PAYLOADS]
    with locked(world, "tokyo", "lrq_receive_blocks"):
        for payload in payloads:
            world.transmit("paris", payload, to=["tokyo"])
        eventually(lambda: sessions_of(paris)["tokyo"]["state"] == "backing off")
        eventually(lambda: sessions_of(paris)["tokyo"]["lag"]["entries"] == len(payloads))
    eventually(lambda: recorder.log("paris") == [b"before", *payloads])
    in_log_sync(paris, "tokyo")


def test_a_locked_database_of_the_source_delays_entries_and_loses_none(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.site("paris")  # connections of the test, made now, keep the long timeout
    monkeypatch.setattr(sqlite_locks, "BUSY_TIMEOUT", 0.1)
    recorder = world.subscribe("tokyo")
    world.begun("paris", "tokyo")
    paris = world.link("paris", "tokyo", initial_sync="log", clients=["policy"])
    in_log_sync(paris, "tokyo")
    with locked(world, "paris", "lrq_ticks"):
        if world.site("paris").dialect.name == "postgresql":
            world.transmit("paris", *PAYLOADS, to=["tokyo"])
    if world.site("paris").dialect.name == "sqlite":
        world.transmit("paris", *PAYLOADS, to=["tokyo"])
    eventually(lambda: recorder.log("paris") == PAYLOADS)


def test_a_full_disk_of_the_sink_is_reported_and_loses_no_entry(world: World, caplog: pytest.LogCaptureFixture) -> None:
    recorder = world.subscribe("tokyo")
    tokyo = world.server("tokyo", listen=[])
    paris = world.server("paris", listen=[], peers={"tokyo": "local:tokyo"}, initial_sync="log", retry_cap_seconds=0.1)
    world.transmit("paris", b"before", to=["tokyo"])
    eventually(lambda: recorder.log("paris") == [b"before"])
    with full(world, tokyo, "lrq_receive_blocks"):
        for payload in PAYLOADS:
            world.transmit("paris", payload, to=["tokyo"])
        eventually(lambda: _says_why(sessions_of(paris)["tokyo"]))
        eventually(lambda: "sink" in tokyo.health_troubles())
        assert _is_full(tokyo.health_troubles()["sink"])
        assert tokyo.status()["server"]["troubles"] == tokyo.health_troubles()
    eventually(lambda: recorder.log("paris") == [b"before", *PAYLOADS])
    eventually(lambda: not tokyo.health_troubles())
    told = [record for record in caplog.records if record.name == "lrq.sink" and _is_full(record.getMessage())]
    assert len(told) == 1, "the log tells a reason once, and not at each try"


def _is_full(words: str) -> bool:
    return any(full in words for full in ("disk is full", "No space left"))


def _says_why(session: dict[str, Any]) -> bool:
    return session["state"] == "backing off" and _is_full(session["reason"])


def test_a_full_disk_of_the_source_is_reported_and_loses_no_entry(world: World) -> None:
    recorder = world.subscribe("tokyo")
    world.begun("paris", "tokyo")
    paris = world.link("paris", "tokyo", initial_sync="log", clients=["policy"])
    in_log_sync(paris, "tokyo")
    sent: list[bytes] = []

    def is_shown() -> bool:
        # SQLite fails only when it needs another page.
        sent.append(f"entry {len(sent)}".encode())
        world.transmit("paris", sent[-1], to=["tokyo"])
        trouble = paris.status()["server"]["troubles"].get("sequencer", "")
        return any(words in trouble for words in ("disk is full", "No space left"))

    with full(world, paris, "lrq_ticks"):
        eventually(is_shown)
    eventually(lambda: recorder.log("paris") == sent)
    eventually(lambda: not paris.status()["server"]["troubles"])
