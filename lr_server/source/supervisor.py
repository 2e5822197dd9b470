"""The supervisor begins a session for each client and each peer that it sends to, watches all, and ends them."""

import math
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from sqlalchemy import Engine

from discovery.threads import watched
from discovery.topology import Topology
from lr_server.protocol.states import SessionStanding
from lr_server.session import table as session_table
from lr_server.session.runner import Session, SessionContext
from lr_server.source.pacing import rest_after
from queues import look_alikes, send_snapshot
from queues.clock import Clock
from queues.database.transactions import reading, writing
from queues.errors import LrqError
from queues.logs import logger
from queues.names import ClientName, SiteId
from queues.send_log.known_sites import KnownSites
from queues.send_log.named_sites import named_sites
from queues.send_log.opening import watch_commits
from queues.send_log.port import SessionKey
from queues.send_log.reads import source_clients
from queues.send_log.sessions import every_key
from queues.send_snapshot import EVERY_SITE, SnapshotSync
from queues.words import in_words

log = logger("lrq.supervisor")

#: The number of stall checks within `stall_seconds`.
_STALL_LOOKS: Final = 20


class Supervisor:
    """Run the sessions of a site, and check all of them from one thread.

    A session begins once an entry of its client names the peer, or a snapshot is requested for it.
    """

    def __init__(
        self,
        engine: Engine,
        topology: Topology,
        context: SessionContext,
        *,
        clients: Iterable[ClientName],
        look_seconds: float,
        clock: Clock,
        told: Iterable[tuple[str, str]] = (),
        known_only: bool = False,
    ) -> None:
        """Warn about site ids that look alike, but for the pairs in *told*."""
        self._told = set(told)
        self._engine = engine
        self._topology = topology
        self._context = context
        self._clients = frozenset(clients)
        self._known_only = known_only
        self._look = look_seconds
        self._clock = clock
        self._sessions: dict[SessionKey, Session] = {}
        self._saved: dict[SessionKey, SessionStanding] = {}
        self._followed: int | None = None
        self._endpoints: dict[SiteId, str] = {}
        self._save_from = 0.0
        self._stalls_from = 0.0
        self._stall_look = context.limits.stall_seconds / _STALL_LOOKS
        self._guard = threading.Lock()
        self._saving = threading.Lock()
        self._stopping = threading.Event()
        self._thread = watched("lrq-supervisor", self._run, context.on_ended)
        #: The reason why the sessions cannot be checked now; empty while all is well.
        self.trouble = ""
        #: The start of the last complete check, in the clock's `monotonic` seconds.
        self.looked_from = -math.inf

    def start(self) -> None:
        """Start the thread, which begins sessions for known and for later peers and clients."""
        self._thread.start()

    def stop(self, lost: str | None = None) -> None:
        """End all sessions and wait for them; *lost* is the reason if another server owns the site now."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        running = self.sessions()
        for session in running:
            session.stop(lost=lost)
        for session in running:
            session.join()
        if lost is None:
            # The save fails without a database or with a new owner of the site; `stop` ends all the same.
            with suppress(LrqError):
                self.save()

    def sessions(self) -> list[Session]:
        """Return the running sessions."""
        with self._guard:
            return list(self._sessions.values())

    def save(self) -> None:
        """Write the changed sessions to the database."""
        # One save at a time, so that older facts never replace newer ones.
        with self._saving:
            now = {session.owed: session.standing for session in self.sessions()}
            changed = [
                (owed, standing)
                for owed, standing in now.items()
                if (saved := self._saved.get(owed)) is not standing and saved != standing
            ]
            if changed:
                session_table.save(self._engine, self._context.lease, changed)
                self._saved |= dict(changed)

    def _run(self) -> None:
        commits = watch_commits(self._engine)
        is_due = True
        try:
            while not self._stopping.is_set():
                began = self._clock.monotonic()
                try:
                    # `is_due` stays True after an error, so that the next turn repeats the work without a new commit.
                    is_due = commits.changed() or is_due
                    is_due = self._follow_topology() or is_due
                    # A site without peers begins no session.
                    look = is_due and bool(self._topology.peers())
                    self._turn(look=look)
                    is_due = is_due and not look
                    self.trouble = ""
                    self.looked_from = began
                except LrqError as error:
                    self._note_trouble(in_words(error))
                except Exception as error:  # noqa: BLE001 - the top of the loop: the status shows it, and the thread tries again
                    self._note_trouble(in_words(error), error)
                self._clock.wait(self._stopping, self._look)
        finally:
            commits.close()

    def _follow_topology(self) -> bool:
        """End the sessions of removed peers, and reconnect those of moved ones; return whether the topology is new."""
        version = self._topology.version
        if version == self._followed:
            return False
        peers = self._topology.peers()
        self._tell_look_alikes(peers)
        gone = [session for session in self.sessions() if session.owed.destination not in peers]
        for session in gone:
            session.stop()
        for session in gone:
            session.join()
        # A save in progress could make the ended sessions active again.
        with self._saving:
            for session in gone:
                with self._guard:
                    del self._sessions[session.owed]
                self._saved.pop(session.owed, None)
            known = KnownSites(peers, self._clients, self._known_only)
            session_table.follow(self._engine, self._context.lease, known)
        self._reconnect({peer: self._topology.endpoint(peer) for peer in peers})
        self._followed = version
        return True

    def _reconnect(self, endpoints: Mapping[SiteId, str]) -> None:
        """Make the sessions connect again whose site has another endpoint now."""
        for session in self.sessions():
            before, now = (known.get(session.owed.destination) for known in (self._endpoints, endpoints))
            if before != now and before is not None:
                session.reconnect("the site has another endpoint now")
        self._endpoints = dict(endpoints)

    def _tell_look_alikes(self, peers: Iterable[SiteId]) -> None:
        for pair in set(look_alikes.look_alikes([self._context.site, *peers])) - self._told:
            log.warning(look_alikes.warning(pair))
            self._told.add(pair)

    def _note_trouble(self, trouble: str, bug: Exception | None = None) -> None:
        if trouble != self.trouble:
            log.warning("the sessions cannot be checked", reason=trouble, exc_info=bug or False)
        self.trouble = trouble

    def _turn(self, *, look: bool) -> None:
        if look:
            with reading(self._engine) as connection:
                newest = send_snapshot.newest_of_each(connection)
            requests = self._one_a_site(newest)
            self._begin_sessions(self._missing(requests))
            self._pass_on(requests)
        began = self._clock.monotonic()
        if began >= self._stalls_from:
            for session in self.sessions():
                session.check_stall()
            self._stalls_from = began + self._stall_look
        if began >= self._save_from:
            self.save()
            now = self._clock.monotonic()
            self._save_from = rest_after(now - began) + now

    def _missing(self, requests: Iterable[SnapshotSync]) -> list[SessionKey]:
        """Return the wanted sessions that do not run yet; reads no further than necessary."""
        peers = self._topology.peers()
        with reading(self._engine) as connection:
            clients = self._clients or source_clients(connection)
            if all(SessionKey(client, peer) in self._sessions for client in clients for peer in peers):
                return []
            asked = {SessionKey(each.client, each.destination) for each in requests if not each.finished}
            wanted = asked.union(named_sites(connection), every_key(connection))
        return sorted(
            owed
            for owed in wanted
            if owed.destination in peers and owed.client in clients and owed not in self._sessions
        )

    def _begin_sessions(self, missing: Iterable[SessionKey]) -> None:
        for owed in missing:
            replaced = session_table.ensure(self._engine, owed)
            session = Session(owed, self._context, replaced=replaced)
            with self._guard:
                self._sessions[owed] = session
            session.start()

    def _one_a_site(self, requests: Sequence[SnapshotSync]) -> Sequence[SnapshotSync]:
        """Split each request for every site into one request for each site; return the newest requests afterwards."""
        for_all = {request.client for request in requests if request.destination == EVERY_SITE}
        if not for_all:
            return requests
        with writing(self._engine) as connection:
            for client in for_all:
                send_snapshot.expand(connection, client, sorted(self._topology.peers()))
            return send_snapshot.newest_of_each(connection)

    def _pass_on(self, requests: Iterable[SnapshotSync]) -> None:
        for request in requests:
            session = self._sessions.get(SessionKey(request.client, request.destination))
            if session is not None:
                session.note_snapshot(request)
