"""Three members with threads and real connections on this machine; each direction of a connection can be cut."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, suppress

from sqlalchemy import Engine

from discovery.ring_status import RingStatus
from lr_server.protocol.agreement.effects import Decline
from lr_server.protocol.agreement.generations import RANKS
from lr_server.protocol.agreement.history import TickMark
from lr_server.protocol.agreement.record import founders
from lr_server.protocol.agreement.roles import Leading
from lr_server.ring.codec import RingAddress
from lr_server.ring.edge import RingParcel
from lr_server.ring.founding import found
from lr_server.ring.links import RingLink
from lr_server.ring.ring_servicer import RingServicer, ServedMember
from lr_server.ring.runner import RingPace, TokenRunner
from lr_server.ring.store import TokenStore
from queues.errors import LrqError, PeerUnreachableError
from queues.names import SiteId
from queues.send_log.ring.log_base import LogBase, StoredRequest
from queues.send_log.ring.tick_contents import TickContent
from sink.transport.credentials import Credentials
from sink.transport.service import SinkService, serve
from sink.writer import SinkWriter
from tests.lr_server.ring.stores import TOKEN, UIDS, open_store, transaction
from tests.waiting import eventually

ADDRESS = RingAddress("paris", TOKEN)
#: Short, and yet long enough for a busy machine: no test depends on the times.
PACE = RingPace(beat=0.1, lease=2.0, stall=2.0, retry=0.3, longest_retry=1.0)


def serve_member(
    engine: Engine, member: ServedMember, listen: str, credentials: Credentials | None = None
) -> SinkService:
    """Serve *member* as a part of a site's service, as a server does."""
    looks = {ADDRESS: lambda: member.status} if isinstance(member, TokenRunner) else {}
    ring = RingServicer({ADDRESS: member}, looks=looks)
    sink = SinkWriter(engine, SiteId(ADDRESS.site))
    more = {"more": [ring.handlers], "more_streams": ring.threads}
    return serve(sink, [listen], credentials=credentials, max_streams=4, **more)


class CutLink:
    """A link that loses everything while it is cut; the other direction is another link."""

    def __init__(self, link: RingLink) -> None:
        self._link = link
        self.is_cut = False

    def send(self, parcel: RingParcel) -> None:
        if not self.is_cut:
            self._link.send(parcel)

    def pull(self, after: int) -> Sequence[TickContent]:
        return self._link.pull(after)

    def pull_base(self) -> LogBase:
        return self._link.pull_base()

    def pull_requests(self, after: int, upto: int) -> Sequence[StoredRequest]:
        return self._link.pull_requests(after, upto)

    def look(self) -> RingStatus:
        if self.is_cut:
            raise PeerUnreachableError("the connection is cut")
        return self._link.look()

    def close(self) -> None:
        self._link.close()


class LiveMember:
    """A member with its service; `links` are by rank."""

    def __init__(
        self, engine: Engine, rank: int, credentials: Credentials | None = None, pace: RingPace = PACE
    ) -> None:
        self.engine, self.rank, self.credentials = engine, rank, credentials
        self.links: dict[int, CutLink] = {}
        self.ends: list[int] = []
        self.stack = ExitStack()
        self.runner = TokenRunner(self.open, rank, self.links, pace=pace, release=self.ends.append, trims=True)
        scheme = "tcp" if credentials is None else "tls"
        self.service = serve_member(engine, self.runner, f"{scheme}://127.0.0.1:0", credentials)
        self.stack.callback(self.service.stop)

    def open(self) -> TokenStore:
        return open_store(self.engine)

    def begin(self, endpoints: Sequence[str]) -> None:
        for rank in RANKS:
            if rank != self.rank:
                link = RingLink(ADDRESS, rank, endpoints[rank], credentials=self.credentials)
                # A link may be replaced by one to another endpoint, which must be closed too.
                self.links[rank] = self.stack.enter_context(closing(CutLink(link)))
        self.stack.callback(self.runner.stop)
        self.runner.start()

    @property
    def leads(self) -> bool:
        """Whether the member leads, and takes entries."""
        member = self.runner.member
        return member is not None and isinstance(member.role, Leading) and member.released >= member.role.seal

    @property
    def released(self) -> int:
        member = self.runner.member
        return 0 if member is None else member.released

    def holds(self, tick: TickMark) -> bool:
        """Whether the log of the member has *tick*; a later leader may have replaced it."""
        member = self.runner.member
        return member is not None and member.record.history.holds(tick)

    def contents(self) -> list[TickContent]:
        """Return the log, without trimmed ticks; as far as it can be read while the member begins again."""
        found: list[TickContent] = []
        with suppress(LrqError):
            first = self.runner.trimmed
            while page := self.runner.read(first + len(found)):
                found += page
        return found


class LiveRing:
    def __init__(self, engines: Sequence[Engine], credentials: Credentials | None, pace: RingPace) -> None:
        for rank, engine in enumerate(engines):
            with closing(open_store(engine)) as store:
                found(store, founders(UIDS)[rank])
        self.members = [LiveMember(engine, rank, credentials, pace) for rank, engine in enumerate(engines)]
        endpoints = [member.service.endpoints[0] for member in self.members]
        for member in self.members:
            member.begin(endpoints)

    def close(self) -> None:
        for member in self.members:
            member.stack.close()

    def cut(self, one: int, other: int) -> None:
        """Lose the messages from *one* to *other*."""
        self.members[one].links[other].is_cut = True

    def heal(self) -> None:
        for member in self.members:
            for link in member.links.values():
                link.is_cut = False

    def begin_again(self, rank: int, engine: Engine | None = None) -> LiveMember:
        """Begin a stopped member again, at another endpoint, and perhaps with another file."""
        before = self.members[rank]
        again = self.members[rank] = LiveMember(engine or before.engine, rank, before.credentials)
        for member in self.members:
            if member is not again:
                member.links[rank].close()
                link = RingLink(ADDRESS, rank, again.service.endpoints[0], credentials=member.credentials)
                member.links[rank]._link = link
        before.stack.close()
        again.begin([member.service.endpoints[0] for member in self.members])
        return again

    def leader(self) -> LiveMember | None:
        return next((member for member in self.members if member.leads), None)

    def led_by(self, rank: int) -> LiveMember:
        eventually(lambda: self.members[rank].leads, timeout=180)
        return self.members[rank]

    def take(self, *payloads: bytes) -> TickMark:
        """Let the leader of the moment store a tick, and wait until it is released there."""

        def taken() -> TickMark | None:
            member = self.leader()
            if member is None:
                return None
            answer = member.runner.offer([transaction(*payloads)]).result(60)
            if isinstance(answer, Decline):
                return None
            eventually(lambda: member.released >= answer.seq or not member.holds(answer))
            return answer if member.holds(answer) else None

        return eventually(taken, timeout=180)

    def level(self, *payloads: bytes) -> list[bytes]:
        """Wait until all members hold the same log with *payloads* in it; return its payloads.

        A payload that was taken again, because its release was not seen, counts once.
        """

        def found() -> list[bytes] | None:
            logs = [member.contents() for member in self.members]
            texts = [row.payload for each in logs[0] for row in each.rows]
            return texts if logs[0] == logs[1] == logs[2] and set(payloads) <= set(texts) else None

        return list(dict.fromkeys(eventually(found, timeout=180)))


def running(
    engines: Sequence[Engine], credentials: Credentials | None = None, pace: RingPace = PACE
) -> Iterator[LiveRing]:
    ring = LiveRing(engines, credentials, pace)
    try:
        yield ring
    finally:
        ring.close()
