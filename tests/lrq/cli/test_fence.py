"""`lrq fence`: lists and resets the newest generations of other sites."""

import pytest

from queues.wire import replication_pb2 as pb
from sink import SinkWriter
from tests.lrq.cli.command import Command
from tests.lrq.cli.source import SourceSite
from tests.sink.conftest import talk
from tests.sink.frames import batch, request, session, tick


@pytest.fixture
def fence(lrq: Command, source: SourceSite):
    """Give a function that runs a command of `lrq fence` on a site that has received from tokyo."""
    sink = SinkWriter(source.engine, "paris")
    for client, generation in (("policy", 41), ("tenant", 7)):
        by = session(source="tokyo", sink="paris", client=client, generation=generation)
        talk(sink, batch(0, tick(0, 1, [b"x"]), by=by))
    return lambda command, *arguments: lrq("fence", command, *arguments, "--database", source.url)


def test_the_fences_are_listed(fence):
    done = fence("list")
    assert done.code == 0
    assert [line.split() for line in done.out.splitlines()[-2:]] == [
        ["tokyo", "policy", "41"],
        ["tokyo", "tenant", "7"],
    ]
    assert fence("list", "--json").json["fences"][0] == {"source": "tokyo", "client": "policy", "generation": 41}


def test_a_site_that_has_received_nothing_has_no_fence(lrq: Command, source: SourceSite):
    done = lrq("fence", "list", "--database", source.url)
    assert (done.code, done.out) == (0, "paris has received nothing\n")


def test_after_a_reset_a_lower_generation_is_believed(fence, source: SourceSite):
    sink = SinkWriter(source.engine, "paris")
    lower = request(session(source="tokyo", sink="paris", generation=3))
    assert sink.negotiate(lower).refusal.kind == pb.Refusal.STALE_LEADER
    done = fence("reset", "tokyo")
    assert (done.code, done.out) == (
        0,
        "policy from tokyo: generation 41 is forgotten\ntenant from tokyo: generation 7 is forgotten\n",
    )
    assert not sink.negotiate(lower).HasField("refusal")


def test_a_reset_of_one_client_keeps_the_others(fence):
    done = fence("reset", "tokyo", "--client", "tenant", "--json")
    assert done.json == {"site": "paris", "reset": [{"source": "tokyo", "client": "tenant", "generation": 7}]}
    assert [each["generation"] for each in fence("list", "--json").json["fences"]] == [41, 0]


@pytest.mark.parametrize("arguments", [["lima"], ["tokyo", "--client", "other"]])
def test_an_unknown_site_or_client_is_told(fence, arguments: list[str]):
    done = fence("reset", *arguments)
    assert done.code == 3
    assert f"paris has received nothing from {arguments[0]}" in done.error
