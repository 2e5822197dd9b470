"""The log after a snapshot: rows of the cut are not sent again, however often the session reconnects."""

import itertools
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, nullcontext

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.orm import Session

from lr_client.sender import RoutingQueueSenderClient
from lr_client.snapshot.cut import open_cut
from lr_server.feed.feed import LiveFeed
from lr_server.session.outgoing import Found, Outgoing, TickPart, log_frame, passed
from queues.blocks import EntryRow, encode_entries
from queues.clock import SYSTEM_CLOCK
from queues.database import leases
from queues.names import client_name, site_id
from queues.positions import PgSnapshot, Position, Tick, Visibility
from queues.send_log.opening import open_log
from queues.send_log.port import SessionKey, TickLimits
from queues.wire.replication_pb2 import Batch, Frame, TickGroup, TickHeader
from queues.wire.replication_pb2 import Position as WirePosition
from sink import SinkWriter
from sink.rests import Bell, Rest
from tests.conftest import NewSite
from tests.received import received_payloads
from tests.sink.frames import begin, end, request, session

TOKYO = SessionKey(client_name("policy"), site_id("tokyo"))
CLIENT = RoutingQueueSenderClient("policy")
#: Each transaction is a tick of its own; several rows are a large tick, which is sent in parts.
LIMITS = TickLimits(rows=1)


def returned(steps: Generator[Rest, None, Found]) -> Found:
    """Return the result of *steps*, without their rests."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


class Link:
    """A source's log, and the sink that receives it, one connection after the other."""

    def __init__(self, source: Engine, sink: Engine, *, is_live: bool) -> None:
        self.source, self.sink = source, sink
        self._is_live = is_live
        self._writer = SinkWriter(sink, site_id("tokyo"))
        self._log = open_log(source, LIMITS)
        self._feed = LiveFeed(10**9, "smart", SYSTEM_CLOCK)
        lease = leases.acquire(source, "server", "me", ttl=60)
        assert lease is not None
        self._lease = lease
        self._last = None
        self._feed.begin(None)

    def close(self) -> None:
        self._log.close()

    def transmit(self, *payloads: bytes) -> None:
        with self.writing(*payloads):
            pass

    @contextmanager
    def writing(self, *payloads: bytes) -> Iterator[None]:
        """Transmit *payloads* in one transaction, which is open during the block."""
        with Session(self.source) as application, application.begin():
            for payload in payloads:
                CLIENT.transmit_log_entry_message(application, payload, ["tokyo"])
            yield

    def call(self, payloads: list[bytes]) -> None:
        """Transmit *payloads* by SQL; all calls are one source transaction."""
        statement = "INSERT INTO lrq_transmit (client, payload, destinations, transaction_key) VALUES"
        with self.source.begin() as connection:
            for payload in payloads:
                connection.execute(text(f"{statement} ('policy', :payload, 'tokyo', 'one')"), {"payload": payload})

    def take_ticks(self) -> None:
        while (group := self._log.take_tick(self._lease, self._last)) is not None:
            self._last = group.tick
            self._feed.publish(group)
        if not self._is_live:
            self._feed.begin(self._last)

    def send_snapshot(self, base: Position) -> None:
        """Send an empty snapshot; the log continues after *base*."""
        self._writer.negotiate(request())
        (*_, last) = self._writer.replicate(iter([begin("s1"), end("s1", [], base=base)]))
        assert last.sync_id == "s1"

    def connect_and_send(self, parts: int) -> bool:
        """Negotiate, send a batch of at most *parts* ticks or parts, and lose the connection; False at the end."""
        received = self._writer.negotiate(request()).received
        at = Position(received.branch, received.seq, received.cut)
        outgoing = Outgoing(TOKYO, self._log, self._feed, LIMITS, part_bytes=10)
        found = returned(outgoing.after(at, 0, timeout=0, bell=Bell()))
        pieces = list(itertools.islice(found.pieces, parts))
        outgoing.leave()
        if pieces:
            frame = log_frame(session(), at, pieces, self._last)
            (ack,) = self._writer.replicate(iter([frame]))
            assert not ack.HasField("refusal"), ack.refusal
        return bool(pieces)

    def stored(self) -> list[bytes]:
        return received_payloads(self.sink)

    def cut(self) -> str:
        with self.sink.connect() as connection:
            return connection.execute(text("SELECT cut FROM lrq_receive_marks")).scalar_one()


@pytest.fixture(params=["live", "from the database"])
def link(request: pytest.FixtureRequest, new_site: NewSite) -> Iterator[Link]:
    with closing(Link(new_site("paris"), new_site("tokyo"), is_live=request.param == "live")) as made:
        yield made


def after_a_snapshot(link: Link, *in_cut: tuple[bytes, ...]) -> list[bytes]:
    """Make a snapshot whose cut holds entries that are in no tick yet; return the payloads that the log owes."""
    link.transmit(b"before")
    link.take_ticks()
    is_postgresql = link.source.dialect.name == "postgresql"
    with link.writing(b"slow") if is_postgresql else nullcontext():
        for payloads in in_cut:
            link.transmit(*payloads)
        with open_cut(link.source) as cut:
            base = cut.base
    for payload in (b"after 1", b"after 2"):
        link.transmit(payload)
    link.take_ticks()
    link.send_snapshot(base)
    return [b"slow"] * is_postgresql + [b"after 1", b"after 2"]


@pytest.mark.parametrize("parts", [1, 2, 99])
def test_entries_of_the_cut_are_not_sent_again_after_a_reconnect(link: Link, parts: int) -> None:
    owed = after_a_snapshot(link, (b"in 1",), (b"in 2",), (b"in 3",))
    while link.connect_and_send(parts):
        pass
    assert link.stored() == owed
    assert link.cut() == ""


@pytest.mark.parametrize("parts", [1, 2])
def test_a_large_transaction_of_the_cut_is_not_sent_again_after_a_reconnect(link: Link, parts: int) -> None:
    owed = after_a_snapshot(link, (b"in 1",), tuple(b"large %d" % n for n in range(5)), (b"in 2",))
    while link.connect_and_send(parts):
        pass
    assert link.stored() == owed
    assert link.cut() == ""


def test_the_cut_is_kept_until_a_tick_covers_all_of_it(link: Link) -> None:
    after_a_snapshot(link, (b"in 1",), (b"in 2",), (b"in 3",))
    for _ in range(2):
        assert link.connect_and_send(1)
        assert link.cut() != ""
    assert link.stored() == []


@pytest.mark.parametrize("parts", [1, 3])
def test_a_large_transaction_is_sent_once_over_several_connections(link: Link, parts: int) -> None:
    payloads = [b"entry %d" % n for n in range(7)]
    link.transmit(*payloads)
    link.transmit(b"last")
    link.take_ticks()
    while link.connect_and_send(parts):
        pass
    assert link.stored() == [*payloads, b"last"]


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
@pytest.mark.parametrize("parts", [1, 2])
def test_a_large_transaction_that_goes_on_after_the_cut_is_sent_once(link: Link, parts: int) -> None:
    payloads = [b"entry %d" % n for n in range(9)]
    link.call(payloads[:4])
    with open_cut(link.source) as cut:
        base = cut.base
    link.call(payloads[4:])
    link.take_ticks()
    link.send_snapshot(base)
    while link.connect_and_send(parts):
        pass
    assert link.stored() == payloads[4:]
    assert link.cut() == ""


# --- passed, alone ----------------------------------------------------------------------------------------------------

XIDS = range(1, 6)


def windows() -> list[PgSnapshot]:
    """Return every snapshot of the transactions 1 to 4 that PostgreSQL could show."""
    found = []
    for xmax in range(1, 6):
        for size in range(xmax):
            for running in itertools.combinations(range(1, xmax), size):
                found.append(PgSnapshot(min(running, default=xmax), xmax, frozenset(running)))
    return found


@pytest.mark.parametrize("cut", windows(), ids=str)
def test_a_cut_is_passed_only_by_a_tick_that_covers_all_rows_of_the_cut(cut: PgSnapshot) -> None:
    for window in windows():
        tick = Visibility(window=window)
        if passed(Visibility(window=cut), tick):
            assert [xid for xid in XIDS if cut.sees(xid) and not tick.covers(xid, 0)] == [], window


@pytest.mark.parametrize("cut", windows(), ids=str)
def test_a_cut_is_passed_by_a_tick_of_the_same_state_and_once_all_its_transactions_have_ended(cut: PgSnapshot) -> None:
    assert passed(Visibility(window=cut), Visibility(window=cut))
    assert passed(Visibility(window=cut), Visibility(window=PgSnapshot(9, 9, frozenset())))


def test_a_tick_in_the_middle_of_a_backlog_passes_no_cut() -> None:
    cut, all_of_it = PgSnapshot(2, 2, frozenset()), PgSnapshot(9, 9, frozenset())
    assert not passed(Visibility(window=cut), Visibility(window=all_of_it, base=cut, upto=1))


@pytest.mark.parametrize(("cut", "tick"), list(itertools.product(range(4), repeat=2)))
def test_a_cut_by_ids_is_passed_by_the_tick_that_reaches_it(cut: int, tick: int) -> None:
    assert passed(Visibility(high=cut), Visibility(high=tick)) == (tick >= cut)


def piece(seq: int, *payloads: bytes) -> TickPart:
    """Return the tick that ends at *seq*, with one row for each payload."""
    group = TickGroup(header=TickHeader(branch="b", end_seq=seq), complete=True)
    if payloads:
        group.block.CopyFrom(encode_entries([EntryRow(payload, 0, 0) for payload in payloads]))
    return TickPart(group, Position("b", seq))


NEWEST = Tick(9, 9, "b", 8, 9, 0, is_large=False, mark="", created_us=5)


@pytest.mark.parametrize(
    ("pieces", "sent"),
    [
        ([], []),
        ([piece(1)], [0]),
        ([piece(1), piece(2)], [1]),
        ([piece(1, b"one"), piece(2, b"two", b"three")], [0, 1]),
        ([piece(1, b"one"), piece(2), piece(3, b"three"), piece(4)], [0, 2, 3]),
    ],
)
@pytest.mark.parametrize("newest", [NEWEST, None])
def test_a_frame_has_the_ticks_with_rows_and_the_last_one(
    pieces: list[TickPart], sent: list[int], newest: Tick | None
) -> None:
    start = Position("b", 0, "5:5:")
    end = pieces[-1].end.seq if pieces else 0
    groups = [pieces[number].group for number in sent]
    expected = Batch(
        start=WirePosition(branch="b", cut="5:5:"),
        groups=groups,
        cut_passed=bool(pieces),
        source_seq=9 if newest else end,
        source_us=5 if newest else 0,
    )
    assert log_frame(session(), start, pieces, newest) == Frame(session=session(), batch=expected)


def test_a_frame_shares_nothing_with_the_ticks_that_other_sessions_send() -> None:
    shared = piece(1, b"one")
    made = log_frame(session(), Position("b", 0), [shared], None)
    made.batch.groups[0].block.body = b"changed"
    assert shared == piece(1, b"one")
