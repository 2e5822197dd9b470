"""The supervisor begins the sessions of the ranges that the server leads, watches all, and ends them."""

import math
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from typing import Final

from sqlalchemy import Engine

from discovery.threads import watched
from discovery.topology import Topology
from lr_server.present_trouble import PresentTrouble
from lr_server.session.context import SessionContext
from lr_server.session.runner import Session
from lr_server.source import site_requests
from lr_server.source.link_changes import LinkChanges
from lr_server.source.pacing import rest_after
from lr_server.source.peer_changes import PeerChanges
from lr_server.source.replica_work import ReplicaWork
from lr_server.source.running_sessions import RunningSessions
from lr_server.source.session_rights import SessionRights
from lr_server.source.session_starts import SessionStarts
from queues import send_snapshot
from queues.clock import Clock
from queues.database.leases import Lease
from queues.database.transactions import reading
from queues.errors import LrqError
from queues.logs import logger
from queues.names import ClientName
from queues.send_log.opening import CommitWatch, watch_commits
from queues.send_log.port import SessionKey
from queues.send_snapshot import EVERY_SITE, SnapshotSync, hints

log = logger("lrq.supervisor")

#: The number of stall checks within `stall_seconds`.
_STALL_LOOKS: Final = 20


class Supervisor:
    """Run the sessions that this server leads, and check all of them from one thread.

    A session begins once an entry of its client names the peer, or a snapshot is requested for it. The server leads the
    session if it holds the lease of the session's range; see `lead`. The sequencer's server also
    records the known sites, and divides requests for snapshots of every site; see `sequence`.
    """

    def __init__(
        self,
        engine: Engine,
        topology: Topology,
        context: SessionContext,
        *,
        clients: Iterable[ClientName],
        ranges: int,
        find_branch: Callable[[], str | None],
        look_seconds: float,
        clock: Clock,
        told: Iterable[tuple[str, str]] = (),
        known_only: bool = False,
        replicas: ReplicaWork,
    ) -> None:
        """Divide the sessions among *ranges*; *find_branch* returns the log's branch, or None for "not known yet".

        Warn about site ids that look alike, but for the pairs in *told*.
        """
        self._engine = engine
        self._topology = topology
        self._replicas = replicas
        self._look = look_seconds
        self._clock = clock
        known = frozenset(clients)
        self._running = RunningSessions(context)
        self._rights = SessionRights(self._running.guard, ranges, find_branch)
        self._links = LinkChanges(engine, self._running, self._rights)
        self._peers = PeerChanges(
            topology, context, self._running, self._rights, replicas, clients=known, known_only=known_only, told=told
        )
        self._starts = SessionStarts(topology, context, known, self._running, self._rights, self._links, replicas)
        self._site_lease: Lease | None = None
        self._listens = False
        self._is_due = True
        self._save_from = 0.0
        self._stalls_from = 0.0
        self._lack = ""
        self._stall_look = context.limits.stall_seconds / _STALL_LOOKS
        self._stopping = threading.Event()
        self._awake = threading.Event()
        self._thread = watched("lrq-supervisor", self._run, context.on_ended)
        self._trouble = PresentTrouble(log, "the sessions cannot be checked", "the sessions are checked again")
        #: The start of the last complete check, in the clock's `monotonic` seconds.
        self.looked_from = -math.inf
        #: The start of the last turn of the thread, in the same seconds; infinite before the first one.
        self.turned = math.inf

    @property
    def trouble(self) -> str:
        """The reason why the sessions cannot be checked now; empty while all is well."""
        return self._trouble.reason

    def start(self) -> None:
        """Start the thread, which begins sessions for known and for later peers and clients."""
        self._thread.start()

    def stop(self, lost: str | None = None) -> None:
        """End all sessions and wait for them; *lost* is the reason if other servers lead them now."""
        self._stopping.set()
        self._awake.set()
        self._thread.join()
        with suppress(LrqError):
            self._running.retire()
        running = self.sessions()
        for session in running:
            session.stop(lost=lost)
        for session in running:
            session.join()
        if lost is None:
            # The save fails without a database or with a new owner of the site; `stop` ends all the same.
            with suppress(LrqError):
                self.save()

    def lead(self, held: Mapping[int, Lease]) -> None:
        """Lead the sessions of the ranges *held*, by their numbers, from now on.

        On return all sessions under other leases have ended, and their standings are saved.
        """
        self._rights.hold(held)
        self._running.end_where(lambda session: self._rights.lease_of(session.owed) != session.leadership.lease)
        self._awake.set()

    def sequence(self, lease: Lease | None) -> None:
        """Do the work for the whole site under the sequencer's *lease*; with None, leave it to another server."""
        self._site_lease = lease
        self._awake.set()

    def end_other_branches(self, branch: str) -> None:
        """End the sessions that do not know the log's *branch*, and begin sessions on this branch only."""
        self._rights.enter(branch)
        self._links.forget_ends()
        self._running.end_where(lambda session: session.leadership.branch != branch)

    def sessions(self) -> list[Session]:
        """Return the running sessions."""
        return self._running.all()

    def negotiate_again(self, owed: SessionKey) -> None:
        """Break the connection of a session, if it runs here, and connect again."""
        session = self._running.get(owed)
        if session is not None:
            session.reconnect("the sink wants a negotiation")

    def save(self) -> None:
        """Write the changed sessions to the database."""
        self._running.save()

    def _run(self) -> None:
        with ExitStack() as listening, closing(watch_commits(self._engine)) as commits:
            while not self._stopping.is_set():
                began = self.turned = self._clock.monotonic()
                self._awake.clear()
                try:
                    self._listen(listening)
                    self._turn(commits)
                    self._trouble.end()
                    self.looked_from = began
                except Exception as error:  # noqa: BLE001 - the top of the loop: the status shows it, and the thread tries again
                    self._trouble.note(error)
                if not self._stopping.is_set():
                    self._clock.wait(self._awake, self._look)

    def _listen(self, listening: ExitStack) -> None:
        """Receive hints until *listening* ends, unless an earlier turn has begun that."""
        if not self._listens:
            with reading(self._engine) as connection:
                receiver = hints.HintReceiver(hints.names_at(connection).servers(), self._awake)
            listening.enter_context(receiver)
            self._listens = True

    def _turn(self, commits: CommitWatch) -> None:
        self._notice_changes(commits)
        # A site without peers begins no session.
        look = self._is_due and bool(self._topology.peers())
        self._replicas.look(at_once=look)
        if look or self._links.draining:
            self._links.follow()
        if look:
            self._begin_sessions()
        self._tend_sessions()
        self._is_due = self._is_due and not look

    def _notice_changes(self, commits: CommitWatch) -> None:
        # `_is_due` stays True after an error, so that the next turn repeats the work without a new commit.
        self._is_due = commits.changed() or self._is_due
        self._is_due = self._rights.find_branch() or self._is_due
        self._is_due = self._peers.follow() or self._is_due
        self._is_due = self._peers.record(self._site_lease) or self._is_due

    def _begin_sessions(self) -> None:
        with reading(self._engine) as connection:
            newest = send_snapshot.newest_of_each(connection, last=True)
        requests = self._one_a_site(newest)
        self._starts.begin(requests)
        self._pass_on(requests)

    def _tend_sessions(self) -> None:
        """Begin tries that are due, and now and then check the connections and save the standings."""
        for session in self.sessions():
            session.retry_if_due()
        began = self._clock.monotonic()
        if began >= self._stalls_from:
            self._lack = self._checked()
            self._stalls_from = began + self._stall_look
        if began >= self._save_from:
            self.save()
            now = self._clock.monotonic()
            self._save_from = rest_after(now - began) + now
        if self._lack:
            raise RuntimeError(self._lack)

    def _checked(self) -> str:
        """Check the connections of all sessions; return the words of the machine if a session lacks its thread."""
        lack = ""
        for session in self.sessions():
            try:
                session.check_connection()
            except RuntimeError as error:
                # The standings of the other sessions must still be saved.
                lack = str(error)
        return lack

    def _one_a_site(self, requests: Sequence[SnapshotSync]) -> Sequence[SnapshotSync]:
        # The sequencer divides the requests; the other servers see the result later.
        if self._site_lease is None:
            return requests
        sites = {EVERY_SITE: self._topology.peers().keys(), **self._topology.replicas()}
        return site_requests.divide(self._engine, requests, sites)

    def _pass_on(self, requests: Iterable[SnapshotSync]) -> None:
        for request in requests:
            session = self._running.get(SessionKey(request.client, request.destination))
            if session is not None:
                session.note_snapshot(request)
