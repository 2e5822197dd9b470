"""A server stays within `max_connections`, its connections have names, and its leases do not wait for sessions."""

import threading
from contextlib import ExitStack, suppress

import pytest

from lr_server.connections import CONTROL, FEWEST, HELD
from queues.errors import PeerUnreachableError
from sink import RemoteSink
from sink.transport.endpoints import network_endpoint
from tests.sink.conftest import Conversation, NumberedSink, accepted
from tests.sink.frames import batch, numbered, request, session, tick
from tests.system.world import World
from tests.waiting import eventually

SOURCES = 40
on_postgresql = pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)


def names(world: World, site: str) -> list[str]:
    """Return the name of each connection of a server of *site*, as administrators see them."""
    rows = world.execute(
        site,
        "SELECT application_name FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name LIKE 'lrq %'",
    )
    return [row.application_name for row in rows]


def begun(sink: RemoteSink, number: int) -> Conversation:
    while True:
        # At most 16 calls of one caller wait for their requests at the same moment.
        with suppress(PeerUnreachableError):
            numbered_sink = NumberedSink(sink)
            assert not numbered_sink.negotiate(request(session(source=f"site{number}"))).HasField("refusal")
            return Conversation(numbered_sink)


@on_postgresql
@pytest.mark.long
def test_forty_sessions_of_a_sink_share_twenty_connections(world: World) -> None:
    endpoint = world.server("tokyo", lease_seconds=3).endpoints[0]
    world.transmit("tokyo", b"own entry", to=["paris"])
    failures: list[BaseException] = []
    all_there = threading.Barrier(SOURCES)

    def replicate(number: int) -> None:
        sink = RemoteSink(network_endpoint(endpoint), negotiation_timeout=60)
        try:
            by = session(source=f"site{number}")
            stream = begun(sink, number)
            all_there.wait(60)
            for seq in range(20):
                accepted([stream.say(batch(seq, tick(seq, seq + 1, numbered(seq + 1, seq + 1)), by=by))])
            stream.hang_up()
        except BaseException as error:  # noqa: BLE001 - the test shows the error of each thread
            failures.append(error)
            all_there.abort()
        finally:
            sink.close()

    threads = [threading.Thread(target=replicate, args=(number,)) for number in range(SOURCES)]
    for thread in threads:
        thread.start()
    most = 0
    while any(thread.is_alive() for thread in threads):
        most = max(most, len(names(world, "tokyo")))
    assert failures == []
    assert 8 < most <= 20


@on_postgresql
def test_each_connection_of_a_server_has_the_site_and_the_role_as_its_name(world: World) -> None:
    world.server("paris", listen=[])
    world.transmit("paris", b"entry", to=["tokyo"])
    eventually(lambda: set(names(world, "paris")) == {"lrq paris server", "lrq paris control"})
    ((own,),) = world.execute("paris", "SELECT current_setting('application_name')")
    assert not own.startswith("lrq")


@on_postgresql
def test_a_name_in_the_url_of_the_database_stays(world: World) -> None:
    url = world.site("paris").url.update_query_dict({"application_name": "mine"}).render_as_string(hide_password=False)
    world.server("paris", listen=[], database_url=url)
    assert names(world, "paris") == []


def test_leases_are_renewed_while_sessions_hold_every_connection(world: World) -> None:
    server = world.server("paris", listen=[], lease_seconds=1, max_connections=FEWEST)

    def lease() -> tuple[int, int]:
        ((generation, expires_us),) = world.execute(
            "paris", "SELECT generation, expires_us FROM lrq_leases WHERE name = 'server'"
        )
        return generation, expires_us

    first, _ = lease()
    seen: set[tuple[int, int]] = set()
    with ExitStack() as held:
        for _ in range(FEWEST - HELD - CONTROL):
            held.enter_context(server._engines.work.connect())
        # Six renewals take longer than the lease.
        eventually(lambda: seen.add(lease()) or len(seen) > 6)
        assert server.is_owner
    assert {generation for generation, _ in seen} == {first}
