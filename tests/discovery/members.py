"""Servers for tests: each takes part in the ranges of a site and records its calls."""

import threading
from collections.abc import Callable, Mapping

from sqlalchemy import Connection, Engine, update

from discovery.membership import Membership
from discovery.processes import owner_name
from queues.clock import SYSTEM_CLOCK, Clock
from queues.database import servers, tables
from queues.database.leases import Lease
from queues.database.transactions import writing
from queues.errors import OwnershipLostError, ThreadEndedError
from queues.leadership import ServersView


class Member:
    """A `Membership` and the ranges that it told, one entry for each call."""

    def __init__(
        self,
        engine: Engine,
        *,
        ranges: int = 8,
        ttl: float = 60,
        clock: Clock = SYSTEM_CLOCK,
        name: str = "",
        work: Callable[[Mapping[int, Lease]], None] = lambda _: None,
    ) -> None:
        self.name = name or owner_name()
        self.told: list[dict[int, Lease]] = []
        self.ended: list[ThreadEndedError] = []
        self._work = work
        self.membership = Membership(
            engine, self.name, ranges=ranges, ttl=ttl, clock=clock,
            endpoints=lambda: ("tcp://127.0.0.1:7400",), on_change=self._tell, on_ended=self.ended.append,
        )  # fmt: skip

    def _tell(self, held: Mapping[int, Lease]) -> None:
        self.told.append(dict(held))
        self._work(held)

    @property
    def numbers(self) -> set[int]:
        return set(self.membership.held)


class SimulatedClock:
    """A clock that only `pass_time` moves; the rows of the database age with it. A wait ends with its event only."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._time = 0.0

    def now_us(self) -> int:
        return int(self._time * 1e6)

    def monotonic(self) -> float:
        return self._time

    def wait(self, event: threading.Event, timeout: float) -> bool:
        return event.wait()

    def pass_time(self, seconds: float) -> None:
        self._time += seconds
        jump(self._engine, seconds)


def jump(engine: Engine, seconds: float) -> None:
    """Make the database's clock jump: a clock ahead by an hour finds every stored time an hour older."""
    with writing(engine) as connection:
        _jump(connection, seconds)


def seen_after_jump(engine: Engine, seconds: float) -> ServersView:
    """Return the servers and their ranges right after a `jump`, before any of them renews."""
    with writing(engine) as connection:
        _jump(connection, seconds)
        return servers.view_of(connection)


def _jump(connection: Connection, seconds: float) -> None:
    for table in (tables.servers.servers, tables.servers.leases):
        older = table.c.expires_us - int(seconds * 1e6)
        connection.execute(update(table).values(expires_us=older))


def counted(engine: Engine) -> int:
    """Return the newest generation of the site."""
    with writing(engine) as connection:
        return int(connection.execute(tables.servers.generations.select()).one().generation)


def leaders(engine: Engine) -> dict[int, str]:
    """Return the leader of each range."""
    return {row.number: row.server for row in servers.look(engine).ranges}


def register(engine: Engine, *names: str, count: int = 4, term: float = 60) -> None:
    for name in names:
        servers.register(engine, name, [f"tcp://{name}:1"], count=count, term=term)


def claim(engine: Engine, server: str, *numbers: int) -> list[Lease]:
    view = servers.look(engine)
    return servers.claim(engine, server, [row for row in view.ranges if row.number in numbers])


def refused(engine: Engine, *held: Lease) -> OwnershipLostError | None:
    """Return the error that the servers of *held* get in a transaction, or None."""
    try:
        with writing(engine) as connection:
            servers.check_ranges(connection, held)
    except OwnershipLostError as error:
        return error
    return None
