"""A link to another member: its end ends all waits, and a slow line carries each tick once."""

import secrets
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
import trustme
from sqlalchemy import Engine

from lr_server.protocol.agreement.history import NO_TICK
from lr_server.protocol.agreement.messages import Append, RingMessage
from lr_server.protocol.agreement.record import StoreId
from lr_server.ring.codec import RingAddress
from lr_server.ring.edge import RingParcel
from lr_server.ring.links import RingLink
from lr_server.ring.store import mark_of
from queues.errors import PeerUnreachableError
from queues.send_log.ring.tick_contents import (
    LogEnd,
    TickContent,
    TickStamp,
    content_after,
    empty_end,
    seal_after,
)
from sink.transport.credentials import Credentials, Pems
from tests.certificates import issued
from tests.conftest import NewSite
from tests.lr_server.ring.live import ADDRESS, serve_member
from tests.lr_server.ring.stores import transaction
from tests.system.relay import Relay
from tests.waiting import eventually


@pytest.fixture(params=["sqlite"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def engine(new_site: NewSite) -> Engine:
    return new_site("paris")


class SlowMember:
    """A member that reads its ticks until `may_end`."""

    rank = 1

    def __init__(self) -> None:
        self.reads, self.may_end = threading.Event(), threading.Event()

    def receive(self, parcel: RingParcel) -> bool:
        return True

    def read(self, after: int) -> Sequence[TickContent]:
        self.reads.set()
        self.may_end.wait()
        return []


def test_the_end_of_a_connection_ends_a_wait_for_ticks(engine: Engine):
    slow = SlowMember()
    with serve_member(engine, slow, "tcp://127.0.0.1:0") as service, ThreadPoolExecutor() as threads:
        try:
            with closing(RingLink(ADDRESS, 1, service.endpoints[0])) as link:
                pulled = threads.submit(link.pull, 0)
                assert slow.reads.wait(60)
            # Without the end, the wait would have 60 seconds.
            with pytest.raises(PeerUnreachableError, match="this member stops"):
                pulled.result()
            with pytest.raises(PeerUnreachableError, match="this member stops"):
                link.pull(0)
        finally:
            slow.may_end.set()


class FailingOnce:
    """Credentials whose second reading fails in a way that no code expects."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self.reads = 0

    def read(self) -> Pems:
        self.reads += 1
        if self.reads == 2:
            raise RuntimeError("the machine has no thread left")
        return self._credentials.read()


def test_an_unexpected_failure_ends_no_way_to_another_member(tmp_path: Path) -> None:
    credentials = FailingOnce(issued(trustme.CA(), tmp_path))
    with closing(RingLink(ADDRESS, 1, "tls://127.0.0.1:1", credentials=credentials)):  # type: ignore[arg-type]
        eventually(lambda: credentials.reads > 2)


def test_a_refusal_of_another_member_is_logged(engine: Engine, caplog: pytest.LogCaptureFixture):
    stranger = RingAddress("lima", ADDRESS.token)
    beat = RingParcel(0, StoreId(1, 1), Append(2, NO_TICK, (), NO_TICK, 0))
    with (
        serve_member(engine, SlowMember(), "tcp://127.0.0.1:0") as service,
        closing(RingLink(stranger, 1, service.endpoints[0])) as link,
    ):

        def is_told() -> bool:
            link.send(beat)
            return "is not here" in caplog.text

        eventually(is_told)
    assert "the way to a member of the ring has failed" in caplog.text


class HeardMember(SlowMember):
    """A member that notes the messages in their order."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[RingMessage] = []

    def receive(self, parcel: RingParcel) -> bool:
        self.heard.append(parcel.message)
        return True


def large_ticks(count: int) -> list[TickContent]:
    """Return ticks with payloads larger than all buffers of a connection that is held."""
    stamp = TickStamp(1, 1)
    ticks = [seal_after(empty_end("before"), 1, "branch", stamp)]
    for _ in range(count):
        end = LogEnd(1, ticks[-1].tick)
        ticks.append(content_after(end, [transaction(secrets.token_bytes(16 * 1024 * 1024))], stamp))
    return ticks[1:]


def test_a_slow_line_to_another_member_carries_each_tick_once(engine: Engine):
    member, (first, second) = HeardMember(), large_ticks(2)
    one, two = (
        RingParcel(0, StoreId(1, 1), Append(1, NO_TICK, (mark_of(tick),), mark_of(tick), 0), (tick,))
        for tick in (first, second)
    )
    with (
        serve_member(engine, member, "tcp://127.0.0.1:0") as service,
        closing(Relay(service.endpoints[0])) as relay,
    ):
        relay.held_after[0] = 100_000
        with closing(RingLink(ADDRESS, 1, relay.endpoint)) as link:
            link.send(one)
            eventually(lambda: relay.is_holding(0))
            for _ in range(5):
                link.send(one)
            link.send(two)
            relay.connections[0].go_on()
            eventually(lambda: two.message in member.heard)
    assert member.heard == [one.message, two.message]
