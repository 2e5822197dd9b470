"""`grpc.health.v1`: the answer of a server to load balancers and probes, with a bounded number of calls."""

from collections.abc import Iterator
from contextlib import ExitStack
from queue import SimpleQueue

import grpc
import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from queues.names import site_id
from sink import SinkWriter
from sink.transport.health import CHECKS, WATCHES, HealthService
from sink.transport.service import SinkService, serve
from sink.transport.servicer import REPLICATION
from tests.waiting import eventually

pytestmark = pytest.mark.long

SERVING, NOT_SERVING = HealthCheckResponse.SERVING, HealthCheckResponse.NOT_SERVING
UNKNOWN = HealthCheckResponse.SERVICE_UNKNOWN


@pytest.fixture
def health() -> HealthService:
    return HealthService(frozenset({REPLICATION}))


@pytest.fixture
def service(tokyo, health: HealthService) -> Iterator[SinkService]:
    with serve(SinkWriter(tokyo("sqlite"), site_id("tokyo")), ["tcp://127.0.0.1:0"], health=health) as made:
        yield made


@pytest.fixture
def stub(service: SinkService) -> Iterator[HealthStub]:
    with grpc.insecure_channel(service.endpoints[0].removeprefix("tcp://")) as channel:
        yield HealthStub(channel)


def checked(stub: HealthStub, name: str = "") -> int:
    return stub.Check(HealthCheckRequest(service=name), timeout=30).status


@pytest.mark.parametrize("name", ["", "lrq.Replication"])
def test_a_check_tells_whether_the_server_serves(stub: HealthStub, health: HealthService, name: str):
    assert checked(stub, name) == NOT_SERVING
    health.set(serving=True)
    assert checked(stub, name) == SERVING
    health.set(serving=False)
    assert checked(stub, name) == NOT_SERVING


def test_a_check_of_another_service_is_not_found(stub: HealthStub):
    with pytest.raises(grpc.RpcError) as raised:
        checked(stub, "lrq.Ingest")
    assert raised.value.code() is grpc.StatusCode.NOT_FOUND


def test_a_watch_hears_of_each_change_and_of_the_end(stub: HealthStub, health: HealthService, service: SinkService):
    health.set(serving=True)
    watch = stub.Watch(HealthCheckRequest(), timeout=30)
    assert next(watch).status == SERVING
    health.set(serving=False)
    assert next(watch).status == NOT_SERVING
    health.set(serving=True)
    assert next(watch).status == SERVING
    service.stop(grace=5.0)
    assert [each.status for each in watch] == [NOT_SERVING]


def test_a_watch_of_another_service_is_unknown(stub: HealthStub):
    watch = stub.Watch(HealthCheckRequest(service="other"), timeout=30)
    assert next(watch).status == UNKNOWN
    watch.cancel()


def test_watches_above_the_limit_are_turned_away_and_ended_ones_leave_their_slots(stub: HealthStub):
    with ExitStack() as stack:
        for _ in range(WATCHES.per_caller):
            watch = stub.Watch(HealthCheckRequest(), timeout=60)
            stack.callback(watch.cancel)
            assert next(watch).status == NOT_SERVING
        with pytest.raises(grpc.RpcError) as raised:
            next(stub.Watch(HealthCheckRequest(), timeout=30))
        assert raised.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert checked(stub) == NOT_SERVING

    def answers() -> bool:
        try:
            return next(stub.Watch(HealthCheckRequest(), timeout=30)).status == NOT_SERVING
        except grpc.RpcError:
            return False

    eventually(answers)


def test_silent_checks_take_no_more_than_their_slots(service: SinkService):
    with grpc.insecure_channel(service.endpoints[0].removeprefix("tcp://")) as channel:
        silent = channel.stream_unary("/grpc.health.v1.Health/Check")
        requests: SimpleQueue[bytes] = SimpleQueue()
        begun = [silent.future(iter(requests.get, b"end"), timeout=60) for _ in range(CHECKS.per_caller)]
        further = channel.unary_unary("/grpc.health.v1.Health/Check")

        def code() -> grpc.StatusCode:
            try:
                further(b"", timeout=30)
            except grpc.RpcError as error:
                return error.code()
            return grpc.StatusCode.OK

        def turned_away() -> bool:
            if code() is grpc.StatusCode.RESOURCE_EXHAUSTED:
                return True
            # The further check may have held the last slot as a silent one came.
            begun.append(silent.future(iter(requests.get, b"end"), timeout=60))
            return False

        eventually(turned_away, interval=0.1)
        for call in begun:
            requests.put(b"end")
            call.cancel()
        eventually(lambda: code() is grpc.StatusCode.OK)


def test_a_request_that_cannot_be_read_is_refused(service: SinkService):
    with grpc.insecure_channel(service.endpoints[0].removeprefix("tcp://")) as channel:
        with pytest.raises(grpc.RpcError) as raised:
            channel.unary_unary("/grpc.health.v1.Health/Check")(b"\xff", timeout=30)
        assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT
