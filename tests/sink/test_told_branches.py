"""The sink keeps the branches that the source tells in a negotiation."""

import pytest
from sqlalchemy import Engine

from queues.database.transactions import reading
from queues.lineage import TOLD_BRANCHES, BranchOrigin
from queues.names import client_name, site_id
from queues.receive import lineages
from queues.wire import replication_pb2 as pb
from sink import Sink
from tests.sink.conftest import accepted, talk
from tests.sink.frames import batch, request, tick

FIRST = BranchOrigin("b1", "00000001")
SECOND = BranchOrigin("b2", "00000002", "7:9:7")


@pytest.fixture(params=["in-process"])
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def negotiate(sink: Sink, *branches: BranchOrigin) -> pb.NegotiateResponse:
    asked = request()
    asked.branches.extend(pb.BranchOrigin(**told._asdict()) for told in branches)
    return sink.negotiate(asked)


def known(engine: Engine) -> list[BranchOrigin]:
    with reading(engine) as connection:
        return lineages.known(connection, client_name("policy"), site_id("paris"))


def test_the_branches_of_a_new_queue_are_kept_with_its_first_frame(sink: Sink, engine: Engine) -> None:
    negotiate(sink, FIRST)
    assert known(engine) == []  # a mere negotiation stores nothing for an unknown queue
    accepted(list(sink.replicate(iter([batch(0, tick(0, 1, [b"x"]))]))))
    assert known(engine) == [FIRST]


def test_each_negotiation_replaces_the_branches_and_one_of_an_earlier_version_keeps_them(
    sink: Sink, engine: Engine
) -> None:
    accepted(talk(sink, batch(0, tick(0, 1, [b"x"]))))
    assert known(engine) == []
    negotiate(sink, FIRST)
    negotiate(sink, FIRST, SECOND)
    assert known(engine) == [FIRST, SECOND]
    negotiate(sink)
    assert known(engine) == [FIRST, SECOND]
    negotiate(sink, SECOND)
    assert known(engine) == [SECOND]


@pytest.mark.parametrize(
    "branches",
    [
        [FIRST] * (TOLD_BRANCHES + 1),
        [FIRST._replace(inherited="no snapshot")],
        [FIRST._replace(inherited="1:2:" + "1," * 20_000)],
        [FIRST._replace(branch="b" * 300)],
        [FIRST._replace(timeline="\0")],
    ],
    ids=["too many", "malformed", "too much inherited", "too long", "NUL"],
)
def test_malformed_branches_are_refused(sink: Sink, engine: Engine, branches: list[BranchOrigin]) -> None:
    accepted(talk(sink, batch(0, tick(0, 1, [b"x"]))))
    assert negotiate(sink, *branches).refusal.kind == pb.Refusal.CORRUPT
    assert known(engine) == []
