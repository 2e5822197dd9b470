"""The supervisor begins the sessions of the ranges that the server leads, watches all, and ends them."""

import math
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Final

from sqlalchemy import Engine

from discovery.ranges import range_of
from discovery.threads import watched
from discovery.topology import Peer, Topology
from lr_server.protocol.states import SessionStanding
from lr_server.session import table as session_table
from lr_server.session.context import Leadership, SessionContext
from lr_server.session.runner import Session
from lr_server.session.table import Standing
from lr_server.source.link_ends import LinkEnds
from lr_server.source.pacing import rest_after
from lr_server.source.replica_work import ReplicaWork
from queues import look_alikes, send_snapshot
from queues.clock import Clock
from queues.database.leases import Lease
from queues.database.transactions import reading, writing
from queues.errors import LrqError
from queues.logs import logger
from queues.names import ClientName, SiteId
from queues.send_log.known_sites import KnownSites
from queues.send_log.links import closed_links, every_link
from queues.send_log.named_sites import named_sites
from queues.send_log.opening import watch_commits
from queues.send_log.port import SessionKey
from queues.send_log.reads import source_clients
from queues.send_log.sessions import every_key
from queues.send_snapshot import EVERY_SITE, SnapshotSync, hints
from queues.states import LinkWish
from queues.words import in_words

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
        self._told = set(told)
        self._engine = engine
        self._topology = topology
        self._context = context
        self._clients = frozenset(clients)
        self._known_only = known_only
        self._replicas = replicas
        self._look = look_seconds
        self._clock = clock
        self._sessions: dict[SessionKey, Session] = {}
        self._saved: dict[SessionKey, SessionStanding] = {}
        self._ranges = ranges
        self._held: Mapping[int, Lease] = {}
        self._site_lease: Lease | None = None
        self._find_branch = find_branch
        self._branch = ""
        self._is_branch_due = True
        self._is_branch_new = False
        self._followed: int | None = None
        self._recorded: tuple[int, Lease] | None = None
        self._peers: Mapping[SiteId, Peer] = {}
        self._link_ends = LinkEnds(engine)
        self._ended: frozenset[SessionKey] = frozenset()
        self._draining: frozenset[SessionKey] = frozenset()
        self._save_from = 0.0
        self._stalls_from = 0.0
        self._stall_look = context.limits.stall_seconds / _STALL_LOOKS
        self._guard = threading.Lock()
        self._saving = context.saving
        self._stopping = threading.Event()
        self._awake = threading.Event()
        self._thread = watched("lrq-supervisor", self._run, context.on_ended)
        #: The reason why the sessions cannot be checked now; empty while all is well.
        self.trouble = ""
        #: The start of the last complete check, in the clock's `monotonic` seconds.
        self.looked_from = -math.inf
        #: The start of the last turn of the thread, in the same seconds; infinite before the first one.
        self.turned = math.inf

    def start(self) -> None:
        """Start the thread, which begins sessions for known and for later peers and clients."""
        self._thread.start()

    def stop(self, lost: str | None = None) -> None:
        """End all sessions and wait for them; *lost* is the reason if other servers lead them now."""
        self._stopping.set()
        self._awake.set()
        if self._thread.is_alive():
            self._thread.join()
        with suppress(LrqError):
            self._retire()
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
        with self._guard:
            self._held = dict(held)
            self._is_branch_due = True
        self._end_where(lambda session: self._lease_of(session.owed) != session.leadership.lease)
        self._awake.set()

    def sequence(self, lease: Lease | None) -> None:
        """Do the work for the whole site under the sequencer's *lease*; with None, leave it to another server."""
        self._site_lease = lease
        self._awake.set()

    def end_other_branches(self, branch: str) -> None:
        """End the sessions that do not know the log's *branch*, and begin sessions on this branch only."""
        with self._guard:
            self._branch = branch
            self._is_branch_new = True
        self._end_where(lambda session: session.leadership.branch != branch)

    def _end_where(self, is_over: Callable[[Session], bool], *, is_kept: bool = True) -> list[Session]:
        """End the sessions of which *is_over* holds, and return them; with *is_kept*, save their standings."""
        with self._guard:
            gone = [session for session in self._sessions.values() if is_over(session)]
            for session in gone:
                del self._sessions[session.owed]
        for session in gone:
            session.stop()
        for session in gone:
            session.join()
        if gone:
            with self._saving:
                for session in gone:
                    self._saved.pop(session.owed, None)
                # Without a database, or under a lost lease, the next leader finds an older standing.
                if is_kept:
                    with suppress(LrqError):
                        session_table.save(self._engine, map(_standing, gone))
        return gone

    def _lease_of(self, owed: SessionKey) -> Lease | None:
        """Return the lease under which this server leads the session; None if it does not."""
        return self._held.get(range_of(owed.client, owed.destination, self._ranges))

    def sessions(self) -> list[Session]:
        """Return the running sessions."""
        with self._guard:
            return list(self._sessions.values())

    def save(self) -> None:
        """Write the changed sessions to the database."""
        # One save at a time, so that older facts never replace newer ones.
        with self._saving:
            now = [_standing(session) for session in self.sessions()]
            changed = [
                each for each in now if (saved := self._saved.get(each.owed)) is not each.facts and saved != each.facts
            ]
            if changed:
                lost = session_table.save(self._engine, changed)
                self._saved |= {each.owed: each.facts for each in changed}
                for error in lost:
                    self._context.on_lost(error)

    def _run(self) -> None:
        with ExitStack() as listening:
            self._watch(listening)

    def _watch(self, listening: ExitStack) -> None:
        commits = watch_commits(self._engine)
        listens = False
        is_due = True
        try:
            while not self._stopping.is_set():
                began = self.turned = self._clock.monotonic()
                self._awake.clear()
                try:
                    if not listens:
                        listening.enter_context(self._hints())
                        listens = True
                    # `is_due` stays True after an error, so that the next turn repeats the work without a new commit.
                    is_due = commits.changed() or is_due
                    is_due = self._follow_branch() or is_due
                    is_due = self._follow_topology() or is_due
                    is_due = self._record_sites() or is_due
                    # A site without peers begins no session.
                    look = is_due and bool(self._topology.peers())
                    self._replicas.look(at_once=look)
                    self._turn(look=look)
                    is_due = is_due and not look
                    self.trouble = ""
                    self.looked_from = began
                except LrqError as error:
                    self._note_trouble(in_words(error))
                except Exception as error:  # noqa: BLE001 - the top of the loop: the status shows it, and the thread tries again
                    self._note_trouble(in_words(error), error)
                if not self._stopping.is_set():
                    self._clock.wait(self._awake, self._look)
        finally:
            commits.close()

    def _hints(self) -> hints.HintReceiver:
        with reading(self._engine) as connection:
            return hints.HintReceiver(hints.names_at(connection).servers(), self._awake)

    def _follow_branch(self) -> bool:
        """Find the log's branch after a change of ranges; return whether sessions may begin that could not before."""
        if not self._is_branch_due:
            return False
        self._is_branch_due = False
        try:
            is_known = self._find_branch() is not None
        except BaseException:
            self._is_branch_due = True
            raise
        # Without a branch the next turn looks again: a sequencer must adopt the database first.
        self._is_branch_due = self._is_branch_due or not is_known
        return is_known

    def _follow_topology(self) -> bool:
        """End the sessions of removed peers, and reconnect those of moved ones; return whether the topology is new."""
        version = self._topology.version
        if version == self._followed:
            return False
        peers = self._topology.peers()
        self._tell_look_alikes(peers)
        gone = self._end_where(lambda session: session.owed.destination not in peers, is_kept=False)
        if gone:
            # The sequencer may have marked them before this server ended them.
            session_table.deactivate(self._engine, map(_standing, gone), session_table.NO_PEER)
        self._reconnect(peers)
        self._followed = version
        return True

    def _record_sites(self) -> bool:
        """As the sequencer, record new known sites, and mark the sessions of all others inactive; return whether."""
        lease, version = self._site_lease, self._topology.version
        if lease is None or not version or self._recorded == (version, lease):
            return False
        # A group of replicas is a name that entries may have too.
        names = frozenset(self._topology.peers()) | self._topology.replicas().keys()
        known = KnownSites(names, self._clients, self._known_only)
        # A save in progress could make sessions of removed sites active again.
        with self._saving:
            session_table.follow(self._engine, lease, known)
        self._replicas.follow(lease)
        self._recorded = version, lease
        return True

    def _reconnect(self, peers: Mapping[SiteId, Peer]) -> None:
        """Make the sessions connect again whose site has another endpoint now."""
        for session in self.sessions():
            before, now = (known.get(session.owed.destination) for known in (self._peers, peers))
            if before != now and before is not None:
                session.reconnect("the site has another endpoint now")
        self._peers = peers

    def _tell_look_alikes(self, peers: Iterable[SiteId]) -> None:
        for pair in set(look_alikes.look_alikes([self._context.site, *peers])) - self._told:
            log.warning(look_alikes.warning(pair))
            self._told.add(pair)

    def _note_trouble(self, trouble: str, bug: Exception | None = None) -> None:
        if trouble != self.trouble:
            log.warning("the sessions cannot be checked", reason=trouble, exc_info=bug or False)
        self.trouble = trouble

    def _follow_links(self) -> None:
        """Tell the sessions of links that end; end those of forgotten links, and those with nothing left to do."""
        # First: a session that has finished before the wishes are read must not begin again.
        self._retire()
        with reading(self._engine) as connection:
            rows = every_link(connection)
        self._ended = frozenset(row.key for row in rows if row.wish is LinkWish.ENDED)
        gone = self._end_where(lambda session: session.owed in self._ended, is_kept=False)
        if gone:
            session_table.finish(self._engine, map(_standing, gone))
        draining = [row for row in rows if row.wish is LinkWish.DRAINING and self._lease_of(row.key) is not None]
        self._draining = frozenset(row.key for row in draining)
        if self._is_branch_new:
            self._is_branch_new = False
            self._link_ends.forget()
        ends = {row.key: (end, row.asked_us) for row, end in self._link_ends.look(draining).items()}
        for session in self.sessions():
            if session.owed not in self._draining:
                session.begin_again()
            elif (known := ends.get(session.owed)) is not None:
                session.note_end(*known)

    def _retire(self) -> None:
        """Save the standings of finished sessions, and end their threads."""
        finished = {session.owed for session in self.sessions() if session.is_finished}
        if finished:
            self.save()
            self._end_where(lambda session: session.owed in finished, is_kept=False)

    def _turn(self, *, look: bool) -> None:
        if look or self._draining:
            self._follow_links()
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
            # A client without an entry may have a link that ends.
            clients = self._clients or {*source_clients(connection), *(owed.client for owed in self._draining)}
            pairs = (SessionKey(client, peer) for client in clients for peer in peers)
            if all(pair in self._sessions or pair in self._ended or self._lease_of(pair) is None for pair in pairs):
                return []
            asked = {SessionKey(each.client, each.destination) for each in requests if not each.finished}
            wanted = asked.union(named_sites(connection), every_key(connection), self._draining) - self._ended
        return sorted(
            owed
            for owed in wanted
            if owed.destination in peers
            and owed.client in clients
            and owed not in self._sessions
            and self._lease_of(owed) is not None
        )

    def _begin_sessions(self, missing: Sequence[SessionKey]) -> None:
        if missing:
            # A change of the groups may have made the sessions: its sequence must be known before the first tick.
            self._replicas.look(at_once=True)
        for owed in missing:
            replaced = session_table.ensure(self._engine, owed)
            with self._guard:
                lease = self._lease_of(owed)
                # Sessions of an unknown branch wait: see `_follow_branch`.
                if lease is None or self._is_branch_due:
                    continue
                session = Session(owed, self._context, Leadership(lease, self._branch), replaced=replaced)
                self._sessions[owed] = session
                session.start()

    def _one_a_site(self, requests: Sequence[SnapshotSync]) -> Sequence[SnapshotSync]:
        """Split each request for several sites into one request for each; return the newest requests afterwards.

        The sequencer does that; the other servers see the result later.
        """
        if self._site_lease is None:
            return requests
        sites = {EVERY_SITE: self._topology.peers().keys(), **self._topology.replicas()}
        for_all = {
            (request.client, request.destination)
            for request in requests
            if request.destination in sites and not request.finished
        }
        if not for_all:
            return requests
        with writing(self._engine) as connection:
            for client, asked in for_all:
                closed = closed_links(connection).get(client, frozenset())
                send_snapshot.expand(connection, client, sorted({*sites[asked]} - closed), asked)
            expanded, names = send_snapshot.newest_of_each(connection), hints.names_at(connection)
        for client, _ in for_all:
            hints.send(names.transmitter(client))
        return expanded

    def _pass_on(self, requests: Iterable[SnapshotSync]) -> None:
        for request in requests:
            session = self._sessions.get(SessionKey(request.client, request.destination))
            if session is not None:
                session.note_snapshot(request)


def _standing(session: Session) -> Standing:
    return Standing(session.owed, session.leadership.lease, session.standing)
