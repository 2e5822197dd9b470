"""The health of a server as probes see it: `/healthz`, `/readyz` and `grpc.health.v1`."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import grpc
import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub
from sqlalchemy import text

import queues
from lr_server import LogReplicationServer
from lr_server.health import Health
from lr_server.readiness import ANSWER_SECONDS, STUCK_SECONDS
from lr_server.source.supervisor import Supervisor
from lrq.cli.health import troubles
from queues.clock import SYSTEM_CLOCK
from queues.descriptors import NO_DESCRIPTOR
from queues.names import SiteId
from queues.send_log.opening import CommitWatch
from queues.thread_lack import LACKS_THREADS, NO_THREAD
from tests.descriptors import no_free_descriptor
from tests.system.test_metrics import ANYWHERE, address_of
from tests.system.world import World
from tests.threads_refused import no_further_thread
from tests.waiting import eventually

SERVING, NOT_SERVING = HealthCheckResponse.SERVING, HealthCheckResponse.NOT_SERVING


def page(address: str, path: str) -> tuple[int, dict[str, Any]]:
    try:
        with urlopen(f"http://{address}{path}", timeout=30) as answer:
            return answer.status, json.load(answer)
    except HTTPError as error:
        return error.code, json.load(error)


def is_ready(address: str) -> bool:
    return page(address, "/readyz") == (200, {"ready": True, "troubles": {}})


@contextmanager
def asking(server: LogReplicationServer) -> Iterator[HealthStub]:
    with grpc.insecure_channel(server.endpoints[0].removeprefix("tcp://")) as channel:
        yield HealthStub(channel)


def serves(stub: HealthStub) -> None:
    """Wait until gRPC's service tells that the server serves: a moment after the page does."""
    eventually(lambda: stub.Check(HealthCheckRequest(), timeout=30).status == SERVING)


def test_a_server_that_works_is_live_and_ready(world: World) -> None:
    server = world.server("paris", metrics=ANYWHERE)
    address = address_of(server)
    eventually(lambda: is_ready(address))
    assert page(address, "/healthz") == (200, {"live": True, "troubles": {}})
    with asking(server) as stub:
        serves(stub)
        for service in ("", "lrq.Replication"):
            assert stub.Check(HealthCheckRequest(service=service), timeout=30).status == SERVING


# A poll of a PostgreSQL connection fails under this limit, which is lower than the number of open descriptors.
@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_a_server_without_a_free_descriptor_is_not_ready_and_tells_the_cure(world: World) -> None:
    server = world.server("paris")
    eventually(lambda: not server.health_troubles())
    with no_free_descriptor():
        assert server.health_troubles()["descriptors"] == NO_DESCRIPTOR
    eventually(lambda: not server.health_troubles())


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_a_server_whose_calls_get_no_thread_is_not_ready_and_tells_the_cure(world: World) -> None:
    server = world.server("paris")
    eventually(lambda: not server.health_troubles())
    with asking(server) as stub:
        with no_further_thread("lrq-sink_", "lrq-room"):
            calls = [stub.Check.future(HealthCheckRequest(), timeout=60) for _ in range(8)]
            told = eventually(lambda: server.health_troubles().get("threads"))
            assert told == NO_THREAD
            (shown,) = eventually(lambda: troubles(server.site_status()))
            assert shown == f"calls wait at a server of this site, because its process {LACKS_THREADS}"
        assert all(call.result().status in (SERVING, NOT_SERVING) for call in calls)
    eventually(lambda: not server.health_troubles() and not troubles(server.site_status()))


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_a_server_whose_socket_is_removed_is_not_ready_and_tells_the_cure(world: World, tmp_path: Path) -> None:
    path, other = tmp_path / "s", tmp_path / "o"
    server = world.server("paris", listen=[f"ipc://{path}"])
    eventually(lambda: not server.health_troubles())
    path.rename(other)
    told = server.health_troubles()["sockets"]
    assert told.startswith(f"the socket {path} was removed or replaced, so no further process connects")
    eventually(lambda: troubles(server.site_status()) == [told])
    other.rename(path)
    assert not server.health_troubles()


def test_a_probe_with_a_misspelt_path_does_not_find_the_server_healthy(world: World) -> None:
    address = address_of(world.server("paris", metrics=ANYWHERE))
    for path in ("/ready", "/healthz/", "/favicon.ico"):
        with pytest.raises(HTTPError, match="404"):
            urlopen(f"http://{address}{path}", timeout=60)
    for path in ("/", "/metrics", "/metrics/"):
        with urlopen(f"http://{address}{path}", timeout=60) as answer:
            assert b"lrq_database_up 1.0" in answer.read()


def test_tables_of_another_schema_make_the_server_unready_and_it_stays_live(world: World) -> None:
    server = world.server("paris", metrics=ANYWHERE)
    address = address_of(server)
    eventually(lambda: is_ready(address))
    with asking(server) as stub:
        serves(stub)
        watch = stub.Watch(HealthCheckRequest(), timeout=60)
        assert next(watch).status == SERVING
        (fits,) = world.execute("paris", "SELECT version_num FROM lrq_alembic_version")
        world.execute("paris", "UPDATE lrq_alembic_version SET version_num = '0001'")
        assert next(watch).status == NOT_SERVING
        code, found = page(address, "/readyz")
        assert (code, found["ready"]) == (503, False)
        assert found["troubles"]["database"].endswith("run `lrq init`")
        assert page(address, "/healthz")[0] == 200
        world.execute("paris", "UPDATE lrq_alembic_version SET version_num = :fits", fits=fits[0])
        assert next(watch).status == SERVING
        watch.cancel()
    eventually(lambda: is_ready(address))


def test_a_server_tells_that_it_stops_before_it_ends_its_streams(world: World) -> None:
    server = world.server("paris", metrics=ANYWHERE)
    with asking(server) as stub:
        serves(stub)
        watch = stub.Watch(HealthCheckRequest(), timeout=60)
        assert next(watch).status == SERVING
        server.stop()
        assert [each.status for each in watch] == [NOT_SERVING]
    assert server.health_troubles() == {"server": "the server stops"}


def test_a_second_server_of_the_site_is_ready_too(world: World) -> None:
    world.server("paris", listen=[])
    other = world.server("paris", listen=[], metrics=ANYWHERE)
    eventually(lambda: is_ready(address_of(other)))


def test_a_server_that_has_left_its_work_to_others_is_not_ready(world: World) -> None:
    server = world.server("paris", listen=[], metrics=ANYWHERE)
    address = address_of(server)
    eventually(lambda: is_ready(address))
    server._roles.membership.give_up(RuntimeError("a thread has ended"))
    eventually(lambda: "takes part again" in page(address, "/readyz")[1]["troubles"].get("role", ""))


def test_a_loop_that_hangs_while_the_database_answers_makes_the_server_dead(world: World, monkeypatch: Any) -> None:
    go_on = threading.Event()
    original = Supervisor._turn

    def hang(self: Supervisor, commits: CommitWatch) -> None:
        go_on.wait(60)
        original(self, commits)

    server = world.server("paris", listen=[], metrics=ANYWHERE)
    address = address_of(server)
    eventually(lambda: is_ready(address))
    monkeypatch.setattr(Supervisor, "_turn", hang)
    health = server._health
    # The time of the health alone runs ahead, and the look at the database with it.
    ahead = STUCK_SECONDS + 60
    monkeypatch.setattr(health, "_clock", _Ahead(ahead))

    def answer() -> tuple[int, dict[str, Any]] | None:
        # A look with the earlier time may just have ended.
        health._look = health._look._replace(began=health._clock.monotonic(), well_since=0.0)
        found = page(address, "/healthz")
        return found if found[0] == 503 else None

    code, found = eventually(answer)
    assert (code, found["live"]) == (503, False)
    assert "has not turned for" in found["troubles"]["sessions"]
    go_on.set()


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_probes_of_grpc_and_the_log_too_hear_that_the_database_does_not_answer(
    world: World, monkeypatch: Any, caplog: pytest.LogCaptureFixture
) -> None:
    server = world.server("paris", metrics=ANYWHERE)
    address = address_of(server)
    eventually(lambda: is_ready(address))
    with asking(server) as stub, world.site("paris").connect() as other:
        serves(stub)
        watch = stub.Watch(HealthCheckRequest(), timeout=120)
        assert next(watch).status == SERVING
        # Only the look of the health reads this table again and again.
        other.execute(text("LOCK TABLE lrq_alembic_version IN ACCESS EXCLUSIVE MODE"))
        monkeypatch.setattr(server._health, "_clock", _Ahead(ANSWER_SECONDS + 60))
        assert "has not answered" in page(address, "/readyz")[1]["troubles"]["database"]
        assert stub.Check(HealthCheckRequest(), timeout=30).status == NOT_SERVING
        assert next(watch).status == NOT_SERVING
        eventually(lambda: "the server is not ready" in caplog.text)
        other.rollback()
        assert next(watch).status == SERVING
        watch.cancel()
    eventually(lambda: is_ready(address))


class _Ahead:
    """The system's clock, ahead by some seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def now_us(self) -> int:
        return SYSTEM_CLOCK.now_us()

    def monotonic(self) -> float:
        return SYSTEM_CLOCK.monotonic() + self._seconds

    def wait(self, event: threading.Event, timeout: float) -> bool:
        return SYSTEM_CLOCK.wait(event, timeout)


def test_the_reason_of_an_unreachable_database_shows_no_password() -> None:
    engine = queues.create_engine("postgresql+psycopg://lrq:secret@127.0.0.1:1/app")
    health = Health(
        engine, SiteId("paris"), role=str, parts=dict, turns=dict, on_ready=lambda _: None, on_ended=print,
        clock=SYSTEM_CLOCK,
    )  # fmt: skip
    health.start()
    found = eventually(lambda: "not been looked at" not in (told := health.troubles()["database"]) and told)
    health.begin_stop()
    health.stop()
    assert "secret" not in found
    assert found
