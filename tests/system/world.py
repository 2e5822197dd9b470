"""A world of sites: databases, servers, snapshot providers, and subscribers that record their calls."""

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pprint import pformat
from typing import Any, TypeVar

from sqlalchemy import Engine, event, text
from sqlalchemy.orm import Session

from discovery.ownership import OwnershipState
from discovery.topology import Topology
from lr_client import RoutingQueueListener, RoutingQueueSenderClient, subscribe
from lr_client.snapshot.requests import SnapshotTransmitter
from lr_server import LogReplicationServer, Settings
from lr_server.session import table as session_table
from queues.clock import SYSTEM_CLOCK, Clock
from queues.errors import StoreUnavailableError
from queues.names import ClientName, SiteId
from queues.send_log.port import SessionKey
from queues.states import SessionState
from sink import local
from sink.port import Sink
from tests.waiting import eventually

#: Short intervals, so that tests do not wait for timers.
QUICK: dict[str, Any] = {
    "heartbeat_seconds": 0.1,
    "snapshot_poll_seconds": 0.05,
    "idle_poll_seconds": 0.02,
    "tick_interval_seconds": 0.005,
    "retry_cap_seconds": 0.5,
    "slow_retry_seconds": 0.5,
}

#: Longer intervals for dozens of sessions in one test, whose polls would otherwise keep the machine busy.
CALM: dict[str, Any] = {**QUICK, "heartbeat_seconds": 1.0, "snapshot_poll_seconds": 0.25, "idle_poll_seconds": 0.2}
CALM_POLL = 0.3

Decorated = TypeVar("Decorated", bound=Sink)


class Recorder(RoutingQueueListener):
    """Records its calls in order.

    ("start", b""), ("snapshot", payload), ("complete", b""), ("log", payload), ("end", b"").
    """

    def __init__(self, client_name: str = "policy") -> None:
        self.client_name = client_name
        self.heard: dict[str, list[tuple[str, bytes]]] = {}
        self.calls: list[tuple[str, list[bytes]]] = []
        self.errors: list[Exception] = []
        self.obey: Callable[[Session, str, Sequence[Any]], bool] = lambda _session, _source, _entries: True

    def _note(self, session: Session, source: str, kind: str, *payloads: bytes) -> None:
        """Record the payloads after the commit only, since a call that is rolled back is repeated."""

        def keep(_: Session) -> None:
            self.heard.setdefault(source, []).extend((kind, payload) for payload in payloads)
            if kind == "log":
                self.calls.append((source, list(payloads)))

        event.listen(session, "after_commit", keep, once=True)

    def process_updates_in_snapshot_sync(self, session: Session, source_id: str, entries: Sequence[Any]) -> bool:
        self._note(session, source_id, "snapshot", *(entry.opaque_payload for entry in entries))
        return True

    def process_updates_in_log_entry_sync(self, session: Session, source_id: str, entries: Sequence[Any]) -> bool:
        if not self.obey(session, source_id, entries):
            return False
        self._note(session, source_id, "log", *(entry.opaque_payload for entry in entries))
        return True

    def on_snapshot_sync_start(self, session: Session, source_id: str) -> None:
        self._note(session, source_id, "start", b"")

    def on_snapshot_sync_complete(self, session: Session, source_id: str) -> None:
        self._note(session, source_id, "complete", b"")

    def on_stream_end(self, session: Session, source_id: str) -> None:
        self._note(session, source_id, "end", b"")

    def on_error(self, source_id: str, error: Exception) -> None:
        self.errors.append(error)

    def log(self, source: str) -> list[bytes]:
        return [payload for kind, payload in self.heard.get(source, []) if kind == "log"]

    def snapshot(self, source: str) -> list[bytes]:
        return [payload for kind, payload in self.heard.get(source, []) if kind == "snapshot"]

    def kinds(self, source: str) -> list[str]:
        """Return the recorded kinds; a run of the same kind is one item with its length, as `log 3`."""
        runs: list[list[Any]] = []
        for kind, _ in self.heard.get(source, []):
            if runs and runs[-1][0] == kind:
                runs[-1][1] += 1
            else:
                runs.append([kind, 1])
        return [f"{kind} {count}" for kind, count in runs]


@dataclass
class Messages:
    """A snapshot provider of given payloads; after *hold_after* of them, it sets `held` and waits for `go_on`."""

    payloads: Callable[[Any], Sequence[bytes]]
    hold_after: int = -1
    held: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)
    served: list[str] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)

    def provide_full_state_data(self, context: Any) -> None:
        self.served.append(context.destination)
        for number, payload in enumerate(self.payloads(context)):
            if number == self.hold_after:
                self.held.set()
                self.go_on.wait(30)
            context.transmit(payload)
        context.mark_completed()

    def cancel(self, context: Any) -> None:
        self.cancelled.append(context.destination)
        self.go_on.set()


class World:
    """Creates sites, their servers, providers and subscribers."""

    def __init__(self, new_site: Callable[[str], Engine], stack: ExitStack) -> None:
        self._new_site = new_site
        self._stack = stack
        self._kept: list[object] = []
        self.servers: list[LogReplicationServer] = []
        self._recorders: dict[str, list[Recorder]] = {}
        self.client = RoutingQueueSenderClient("policy")
        self.engines: dict[str, Engine] = {}

    def site(self, name: str) -> Engine:
        if name not in self.engines:
            self.engines[name] = self._new_site(name)
        return self.engines[name]

    def settings(self, name: str, **options: Any) -> Settings:
        url = self.site(name).url.render_as_string(hide_password=False)
        return Settings(**{"site_id": name, "database_url": url, **QUICK, **options})

    def server(
        self, name: str, *, topology: Topology | str | None = None, clock: Clock = SYSTEM_CLOCK, **options: Any
    ) -> LogReplicationServer:
        """Start the server of a site, by default at a free port; a text as *topology* is the setting."""
        options.setdefault("listen", ["tcp://127.0.0.1:0"])
        if isinstance(topology, str):
            options["topology"], topology = topology, None
        settings = self.settings(name, **options)
        server = self._stack.enter_context(LogReplicationServer(settings, topology=topology, clock=clock))
        self.servers.append(server)
        return server

    def link(self, source: str, *sinks: str, **options: Any) -> LogReplicationServer:
        """Start the servers of *sinks* and of a *source* that replicates to them within this process."""
        for sink in sinks:
            self.server(sink, listen=[])
        return self.server(source, listen=[], peers={sink: f"local:{sink}" for sink in sinks}, **options)

    def begun(self, source: str, *sinks: str, client: str = "policy") -> None:
        """Record sessions as an earlier server has left them; a server begins them without waiting for an entry."""
        for sink in sinks:
            session_table.ensure(self.site(source), SessionKey(ClientName(client), SiteId(sink)))

    def behind(self, sink: str, decorate: Callable[[Sink], Decorated]) -> Decorated:
        """Start the server of *sink*; its local sessions go through *decorate*."""
        server = self.server(sink, listen=[])
        decorated = decorate(server._writer)
        local.withdraw(SiteId(sink), server._writer)
        local.offer(SiteId(sink), decorated)  # type: ignore[arg-type]
        # Otherwise a later test of this process finds the sink too.
        self._stack.callback(local.withdraw, SiteId(sink), decorated)  # type: ignore[arg-type]
        self._kept.append(decorated)
        return decorated

    def execute(self, name: str, statement: str, **values: Any) -> Any:
        """Run one statement at a site; return its rows, or None if it has none."""
        with self.site(name).begin() as connection:
            result = connection.execute(text(statement), values)
            return result.all() if result.returns_rows else None

    def provide(self, name: str, provider: Any, client: str = "policy", *, block_rows: int | None = None) -> Any:
        """Serve snapshot requests; a block has at most *block_rows* rows."""
        if block_rows is None:
            transmitter = RoutingQueueSenderClient(client).start_snapshot_transmitter(self.site(name), provider)
        else:
            transmitter = SnapshotTransmitter(self.site(name), client, provider, block_rows=block_rows)
        return self._stack.enter_context(closing(transmitter))

    def subscribe(
        self, name: str, listener: Recorder | None = None, *, poll_interval: float = 0.05, **options: Any
    ) -> Recorder:
        recorder = listener or Recorder()
        made = subscribe(self.site(name), recorder, poll_interval=poll_interval, **options)
        self._stack.enter_context(closing(made))
        self._recorders.setdefault(name, []).append(recorder)
        return recorder

    def transmit(self, name: str, *payloads: bytes, to: Sequence[str], client: str = "policy") -> str:
        """Commit one transaction with *payloads*; return its token."""
        sender = RoutingQueueSenderClient(client)
        with Session(self.site(name)) as session, session.begin():
            for payload in payloads:
                token = sender.transmit_log_entry_message(session, payload, to)
        return str(token)

    def request_snapshots(self, name: str, *destinations: str, client: str = "policy") -> None:
        """Request snapshots in one transaction; without *destinations*, one for every site."""
        sender = RoutingQueueSenderClient(client)
        with Session(self.site(name)) as session, session.begin():
            for destination in destinations:
                sender.request_snapshot_sync(session, destination)
            if not destinations:
                sender.request_global_snapshot_sync(session)

    def report(self) -> str:
        """Describe the servers and recorders, for the output of a failed test."""
        # A stopped server has closed its connections; its status would open another.
        running = [server for server in self.servers if server._roles.ownership.state is not OwnershipState.STOPPED]
        lines = [_described(server) for server in running]
        for name, recorders in self._recorders.items():
            for recorder in recorders:
                heard = {source: recorder.kinds(source) for source in recorder.heard}
                lines.append(f"{name} heard {heard}, errors {recorder.errors}")
        return "\n".join(lines)


def _described(server: LogReplicationServer) -> str:
    try:
        return pformat(server.status(), width=160)
    except StoreUnavailableError as error:
        return str(error)


def sessions_of(server: LogReplicationServer) -> dict[str, dict[str, Any]]:
    """Return the status of each session by destination; for servers with one client."""
    return {session["destination"]: session for session in server.status()["sessions"]}


def in_log_sync(server: LogReplicationServer, *destinations: str) -> None:
    """Wait until the sessions with *destinations* replicate the log."""
    eventually(
        lambda: all(
            sessions_of(server).get(destination, {}).get("state") == SessionState.LOG_ENTRY_SYNC
            for destination in destinations
        )
    )
