"""Two sites, one of them on a PostgreSQL primary with two synchronous standbys, and a writer that never stops."""

import threading
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, Final

from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from discovery.server_status import OwnerStatus
from discovery.status import read_status
from lr_client import RoutingQueueListener, RoutingQueueSenderClient, wait_applied
from lr_server import LogReplicationServer
from queues.errors import LinkEndedError, StoreUnavailableError
from queues.positions import Position
from tests.standbys import StandbyServers, standby_servers
from tests.system.world import World
from tests.waiting import eventually

LEASE_SECONDS: Final = 4.0
#: Shorter than an outage, so that sessions connect again during the outage.
_OPTIONS: Final = {"listen": [], "lease_seconds": LEASE_SECONDS, "stall_seconds": 1.0}
#: The number that stands for the end of the stream.
END: Final = -1


class Applied(RoutingQueueListener):
    """Keeps the numbers of applied entries in a table of the sink, and calls that must never come."""

    client_name = "policy"

    def __init__(self) -> None:
        self.undone: list[Position] = []

    def process_updates_in_log_entry_sync(self, session: Session, source_id: str, entries: Sequence[Any]) -> bool:
        for entry in entries:
            session.execute(
                text("INSERT INTO app VALUES (:seq, :number)"),
                {"seq": entry.sequence, "number": int(entry.opaque_payload)},
            )
        return True

    def process_updates_in_snapshot_sync(self, session: Session, source_id: str, entries: Sequence[Any]) -> bool:
        return False

    def on_rollback(self, session: Session, source_id: str, position: Position) -> None:
        self.undone.append(position)

    def on_stream_end(self, session: Session, source_id: str) -> None:
        session.execute(text("INSERT INTO app SELECT max(seq) + 1, :end FROM app"), {"end": END})


class Writer:
    """Transmits one number after the other; a number whose commit has failed may have been stored or not."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._stopping = threading.Event()
        self._client = RoutingQueueSenderClient("policy")
        self._thread = threading.Thread(target=self._run)
        self.tokens: dict[int, str] = {}
        self.unknown: set[int] = set()
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stopping.is_set():
            number += 1
            try:
                with Session(self._engine) as session, session.begin():
                    token = self._client.transmit_log_entry_message(session, b"%d" % number, ["tokyo"])
                self.tokens[number] = str(token)
            except LinkEndedError:
                return
            except (DBAPIError, StoreUnavailableError):
                self.unknown.add(number)
                self._stopping.wait(0.01)
            self._stopping.wait(0.002)

    def more(self, count: int) -> None:
        """Wait until *count* further numbers are acknowledged."""
        until = len(self.tokens) + count
        eventually(lambda: len(self.tokens) >= until, timeout=60)

    def newest(self) -> tuple[int, str]:
        number = max(self.tokens)
        return number, self.tokens[number]

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()


class Sites:
    """Paris sends to tokyo; one of them stands on three PostgreSQL servers."""

    def __init__(self, world: World, stack: ExitStack, standing: str) -> None:
        self._world, self._name = world, standing
        self.servers: StandbyServers = stack.enter_context(standby_servers())
        world.engines[standing] = self.servers.site(standing)
        stack.callback(world.engines[standing].dispose)
        self.paris, self.tokyo = world.site("paris"), world.site("tokyo")
        with self.tokyo.begin() as connection:
            connection.execute(text("CREATE TABLE app (seq integer, number integer)"))
        self.listener = Applied()
        tokyo = world.server("tokyo", **_OPTIONS)
        world.subscribe("tokyo", self.listener)  # type: ignore[arg-type]
        paris = self._serve_paris()
        self.server = paris if standing == "paris" else tokyo
        self.writer = Writer(self.paris)
        stack.callback(self.writer.stop)

    def _serve_paris(self) -> LogReplicationServer:
        return self._world.server("paris", peers={"tokyo": "local:tokyo"}, initial_sync="log", **_OPTIONS)

    @property
    def standing(self) -> Engine:
        """The engine of the site that stands on three servers."""
        return self._world.site(self._name)

    def stand_by(self) -> LogReplicationServer:
        """Start another server of that site, which stands by."""
        return self._serve_paris() if self._name == "paris" else self._world.server("tokyo", **_OPTIONS)

    def owner(self) -> OwnerStatus:
        """Return the holder of that site's lease."""
        owner = read_status(self.standing).server_owner
        assert owner is not None
        return owner

    def keeps_its_owner(self) -> bool:
        """Transmit and read back for a while; return whether one acquisition of the lease lasted."""
        before = self.owner()
        for _ in range(10):
            self.writer.more(5)
            self.read_back()
        return self.owner() == before

    def waiting_seconds(self) -> float:
        """Return how long the oldest commit waits."""
        facts = read_status(self.standing).standbys
        assert facts is not None
        return facts.waiting_seconds

    def read_back(self) -> None:
        """Wait for the newest token; its entry is applied then."""
        number, token = self.writer.newest()
        RoutingQueueSenderClient("policy").wait_replicated(self.paris, token, ["tokyo"], timeout=60)
        wait_applied(self.tokyo, token, timeout=60)
        assert number in self.applied()

    def applied(self) -> list[int]:
        with self.tokyo.connect() as connection:
            return list(connection.execute(text("SELECT number FROM app ORDER BY seq")).scalars())

    def check(self) -> None:
        """Compare the sites after the last number has arrived; old tokens still count."""
        self.writer.stop()
        self.read_back()
        for token in list(self.writer.tokens.values())[:: len(self.writer.tokens) // 20]:
            wait_applied(self.tokyo, token, timeout=0)
        applied = self.applied()
        assert applied == sorted(set(applied))
        assert set(self.writer.tokens) <= set(applied) <= set(self.writer.tokens) | self.writer.unknown
        assert not self.listener.undone
