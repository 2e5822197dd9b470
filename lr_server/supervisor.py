"""All sessions of an owner: begun as peers and clients are found, watched together, ended together."""

import math
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final

from sqlalchemy import Connection, Engine, select, union

from discovery.topology import Topology
from lr_server import session_table
from lr_server.pacing import rest_after
from lr_server.session import Session, Surroundings
from lr_server.states import Standing
from queues import dialects, snapshots
from queues.clock import Clock
from queues.errors import LrqError
from queues.log.opening import watch_commits
from queues.log.port import Owed
from queues.logs import logger
from queues.names import ClientName
from queues.snapshots import EVERY_SITE, Snapshot
from queues.tables import snapshot_providers, tag_sets
from queues.tables import snapshots as snapshot_table
from queues.transactions import reading, writing

log = logger("lrq.supervisor")

#: So many times in the time after which a session is stalled all are asked whether they are.
_STALL_LOOKS: Final = 20


class Supervisor:
    """Runs one session for every peer and client; looks after all of them from one thread."""

    def __init__(
        self,
        engine: Engine,
        topology: Topology,
        around: Surroundings,
        *,
        clients: Iterable[ClientName],
        look_seconds: float,
        clock: Clock,
    ) -> None:
        self._engine = engine
        self._topology = topology
        self._around = around
        self._clients = frozenset(clients)
        self._look = look_seconds
        self._clock = clock
        self._sessions: dict[Owed, Session] = {}
        self._saved: dict[Owed, Standing] = {}
        self._followed: int | None = None
        self._save_from = 0.0
        self._stalls_from = 0.0
        self._stall_look = around.limits.stall_seconds / _STALL_LOOKS
        self._guard = threading.Lock()
        self._saving = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lrq-supervisor", daemon=True)
        #: Why the sessions cannot be looked after just now; empty while all is well.
        self.trouble = ""
        #: When it began to look the last time that it came to the end, on the clock's `monotonic`.
        self.looked_from = -math.inf

    def start(self) -> None:
        """Begin the sessions that are known, and those that are found later."""
        self._thread.start()

    def stop(self, lost: str | None = None) -> None:
        """End all sessions and wait for that; *lost* says why, when the site is another server's now."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        running = self.sessions()
        for session in running:
            session.stop(lost=lost)
        for session in running:
            session.join()
        if lost is None:
            # Without a database, or with a new owner of the site, there is nobody to tell.
            with suppress(LrqError):
                self.save()

    def sessions(self) -> list[Session]:
        """Return the sessions that there are."""
        with self._guard:
            return list(self._sessions.values())

    def save(self) -> None:
        """Write to the database how the sessions stand, where that has changed."""
        # One at a time: what was found earlier must not be written over what was found later.
        with self._saving:
            now = {session.owed: session.standing for session in self.sessions()}
            changed = [
                (owed, standing)
                for owed, standing in now.items()
                if (saved := self._saved.get(owed)) is not standing and saved != standing
            ]
            if changed:
                session_table.save(self._engine, self._around.lease, changed)
                self._saved |= dict(changed)

    def _run(self) -> None:
        commits = watch_commits(self._engine)
        is_due = True
        try:
            while not self._stopping.is_set():
                began = self._clock.monotonic()
                try:
                    # What failed half way is looked at again, whether or not anything has changed.
                    is_due = commits.changed() or is_due
                    is_due = self._follow_topology() or is_due
                    # A site that only receives has nobody to begin a session with.
                    look = is_due and bool(self._topology.peers())
                    self._turn(look=look)
                    is_due = is_due and not look
                    self.trouble = ""
                    self.looked_from = began
                except LrqError as error:
                    self._tell(str(error))
                except Exception as error:  # noqa: BLE001 - the loop's top: recorded, shown in the status, tried again
                    self._tell(f"{type(error).__name__}: {error}")
                self._clock.wait(self._stopping, self._look)
        finally:
            commits.close()

    def _follow_topology(self) -> bool:
        """End the sessions with sites that are peers no more; tell whether the peers have changed."""
        version = self._topology.version
        if version == self._followed:
            return False
        peers = self._topology.peers()
        gone = [session for session in self.sessions() if session.owed.destination not in peers]
        for session in gone:
            session.stop()
        for session in gone:
            session.join()
        # What is being saved may hold how they stood.
        with self._saving:
            for session in gone:
                with self._guard:
                    del self._sessions[session.owed]
                self._saved.pop(session.owed, None)
            session_table.leave_out(self._engine, self._around.lease, peers, self._clients)
        self._followed = version
        return True

    def _tell(self, trouble: str) -> None:
        if trouble != self.trouble:
            log.warning("the sessions cannot be looked after", reason=trouble)
        self.trouble = trouble

    def _turn(self, *, look: bool) -> None:
        if look:
            with reading(self._engine) as connection:
                clients = self._clients or _found_clients(connection)
                requests = snapshots.newest_of_each(connection)
            self._begin_sessions(clients)
            self._pass_on(self._one_a_site(requests))
        began = self._clock.monotonic()
        if began >= self._stalls_from:
            for session in self.sessions():
                session.check_stall()
            self._stalls_from = began + self._stall_look
        if began >= self._save_from:
            self.save()
            now = self._clock.monotonic()
            self._save_from = rest_after(now - began) + now

    def _begin_sessions(self, clients: Iterable[ClientName]) -> None:
        for client in clients:
            for peer in self._topology.peers():
                owed = Owed(client, peer)
                if owed not in self._sessions:
                    session_table.ensure(self._engine, owed)
                    session = Session(owed, self._around)
                    with self._guard:
                        self._sessions[owed] = session
                    session.start()

    def _one_a_site(self, requests: Sequence[Snapshot]) -> Sequence[Snapshot]:
        """Turn those of the newest requests that are for every site into one a site; return what counts then."""
        for_all = {request.client for request in requests if request.destination == EVERY_SITE}
        if not for_all:
            return requests
        with writing(self._engine) as connection:
            for client in for_all:
                snapshots.expand(connection, client, sorted(self._topology.peers()))
            return snapshots.newest_of_each(connection)

    def _pass_on(self, requests: Iterable[Snapshot]) -> None:
        for request in requests:
            session = self._sessions.get(Owed(request.client, request.destination))
            if session is not None:
                session.note_snapshot(request)


def _found_clients(connection: Connection) -> set[ClientName]:
    return {ClientName(name) for (name,) in dialects.of(connection).bulk_select(connection, _CLIENTS, {})}


# Who offers snapshots, of whom one was asked for, and who has transmitted something.
_CLIENTS = union(select(snapshot_providers.c.client), select(snapshot_table.c.client), select(tag_sets.c.client))
