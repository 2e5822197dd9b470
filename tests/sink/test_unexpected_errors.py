"""A bug or an odd text at the sink refuses one request in words, and ends no thread."""

import asyncio

import pytest
from sqlalchemy import Engine, event

from queues.names import site_id
from queues.wire import replication_pb2 as pb
from queues.words import LONGEST
from sink import SinkWriter
from sink.protocol.log_rules import Refuse
from sink.wire import to_refusal
from tests.sink.conftest import accepted, refused, talk
from tests.sink.frames import FIRST, request

ERRORS = [KeyError("bug"), asyncio.CancelledError(), SystemExit(1), KeyboardInterrupt(), GeneratorExit()]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_unexpected_error_refuses_the_request_and_the_next_one_is_taken(
    site: Engine, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    sink = SinkWriter(site, site_id("tokyo"))
    sink.negotiate(request())
    fails = [error]

    def fail(*_: object) -> None:
        if fails:
            raise fails.pop()

    event.listen(site, "begin", fail)
    answer = list(sink.replicate(iter([FIRST])))
    assert refused(answer).kind == pb.Refusal.TRANSIENT
    assert refused(answer).reason.startswith(f"the sink failed unexpectedly: {type(error).__name__}")
    assert "Traceback" in caplog.text
    fails.append(error)
    assert sink.negotiate(request()).refusal.kind == pb.Refusal.TRANSIENT
    accepted(talk(sink, FIRST))


def test_the_reason_of_a_refusal_is_cut_and_can_cross_the_wire() -> None:
    reason = to_refusal(Refuse(pb.Refusal.TRANSIENT, "\0\ud800" + "x" * 3_500_000)).reason
    assert reason.startswith("��x")
    assert len(reason) == LONGEST
