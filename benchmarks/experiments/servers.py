"""The catch-up of eight sessions by two server processes of one source, against one server process.

The sinks acknowledge every frame and store nothing. The sessions are shared four to four. All of them have a stream
before the clock begins, and the sinks release them at the same time.
"""

from typing import Final

from benchmarks.bars import OURS
from benchmarks.bench import Bench
from benchmarks.contenders.lrq_shared import SharedSource

NAME: Final = "servers"
SQLITE: Final = "lrq on SQLite"
_SESSIONS: Final = 8
_CASES: Final = tuple((dialect, servers) for dialect in ("postgresql", "sqlite") for servers in (1, 2))


def measure(bench: Bench) -> None:
    """Let one and two servers catch up with the same backlog."""
    entries = bench.pick(10_000, 50_000)
    for _, (dialect, servers) in bench.rounds(_CASES):
        setting = f"{servers} server{'s' if servers > 1 else ''}"
        contender = OURS if dialect == "postgresql" else SQLITE
        bench.say(f"{contender}: {setting}")
        with (
            bench.tried(f"{NAME}, {contender}, {setting}"),
            SharedSource(bench.place, dialect, _SESSIONS, servers) as source,
        ):
            source.write(entries)
            seconds = source.catch_up(entries)
            bench.book.add(NAME, setting, contender, **{"deliveries/s": _SESSIONS * entries / seconds})
