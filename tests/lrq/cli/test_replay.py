"""`lrq replay`: orders that applied entries come again, lists and withdraws orders."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lrq.cli.person import person
from queues.database import actions
from queues.database.transactions import reading
from queues.names import SiteId
from queues.receive import replays
from queues.wire import replication_pb2 as pb
from sink import SinkWriter
from tests.lrq.cli.command import Command
from tests.lrq.cli.source import SourceSite
from tests.sink.applied import BY, apply_five
from tests.sink.frames import header, request, session
from tests.waiting import eventually


@pytest.fixture
def replay(lrq: Command, source: SourceSite):
    """Give a function that runs a command of `lrq replay` on a site that has applied five entries of tokyo."""
    apply_five(source.engine)
    return lambda command, *arguments: lrq("replay", command, *arguments, "--database", source.url)


@contextmanager
def answering(source: SourceSite, **answer: object) -> Iterator[None]:
    """Answer the next order during the block, as tokyo would."""

    def negotiate() -> None:
        sink = SinkWriter(source.engine, SiteId("paris"))
        order = eventually(lambda: sink.negotiate(request(session(**BY))).replay.order_id)
        asked = request(session(**BY))
        asked.replay.CopyFrom(pb.ReplayAnswer(order_id=order, **answer))  # type: ignore[arg-type]
        sink.negotiate(asked)

    thread = threading.Thread(target=negotiate)
    thread.start()
    yield
    thread.join()


ORDER = ("order", "policy", "tokyo", "--from", "4", "--yes")


def test_an_order_waits_for_its_outcome_and_tells_it(replay, source: SourceSite):
    with answering(source, after=header(0, 3)):
        done = replay(*ORDER)
    assert (done.code, done.out) == (0, "policy from tokyo: entries from 4 to 5 come again\n")
    noted = [(each.person, each.outcome) for each in actions.newest(source.engine)]
    assert noted == [
        (person(), "replay of policy from tokyo begun: entries from 4 to 5 come again"),
        (person(), "replay of policy from tokyo ordered: entries from 4 on"),
    ]
    listed = replay("list", "--json").json["replays"]
    assert [(each["from"], each["state"], each["outcome"]) for each in listed] == [
        (4, "begun", "entries from 4 to 5 come again")
    ]
    assert "entries from 4 to 5 come again" in replay("list").out


def test_a_refusal_of_the_source_is_told_with_exit_code_3(replay, source: SourceSite):
    with answering(source, refusal="entries up to 4 are trimmed"):
        done = replay(*ORDER, "--json")
    assert done.code == 3
    assert done.error == "the replay of policy from tokyo was refused: entries up to 4 are trimmed"
    assert (done.json["state"], done.json["since"]) == ("refused", None)


def test_an_order_that_is_not_answered_stands_and_can_be_withdrawn(replay, source: SourceSite):
    done = replay(
        "order", "policy", "tokyo", "--since", "2026-07-01T12:00Z", "--without-undo", "--yes", "--timeout", "0"
    )
    assert done.code == 3
    assert done.error == (
        "tokyo has not answered for 0 s: the order stands until tokyo connects, or until "
        "`lrq replay cancel policy tokyo`"
    )
    [order] = replay("list", "--json").json["replays"]
    assert (order["state"], order["since"], order["undo"]) == ("ordered", "2026-07-01T12:00:00.000Z", False)
    assert "entries since 2026-07-01T12:00:00.000Z, without on_rollback" in replay("list").out
    assert replay("cancel", "policy", "tokyo").out == "policy from tokyo: the order is withdrawn\n"
    assert replay("list", "--json").json["replays"][0]["state"] == "cancelled"
    again = replay("cancel", "policy", "tokyo")
    assert (again.code, again.error[:54]) == (2, "no order for a replay of policy from tokyo waits: `lrq"[:54])
    with reading(source.engine) as connection:
        assert replays.all_waiting(connection) == []


def test_the_status_of_the_site_shows_an_order_and_its_end(lrq: Command, replay, source: SourceSite):
    def status(*options: str):
        return lrq("status", "--database", source.url, *options)

    assert "Replays" not in status().out
    replay(*ORDER, "--timeout", "0")
    shown = status().out
    assert re.search(r"policy +tokyo +.+ +● ordered +entries from 4 on", shown), shown
    assert status("--json").json["replays"] == replay("list", "--json").json["replays"]
    replay("cancel", "policy", "tokyo")
    assert re.search(r"● cancelled +nothing has changed", status().out)


@pytest.mark.parametrize("number", ["0", "four"])
def test_a_wrong_number_is_refused_before_the_question(replay, number: str):
    done = replay("order", "policy", "tokyo", "--from", number)
    assert done.code == 2
    assert "Apply entries" not in done.err


def test_an_order_asks_first(replay, source: SourceSite):
    done = replay("order", "policy", "tokyo", "--from", "4")
    assert done.code == 1
    assert "Apply entries from 4 on of policy from tokyo again?" in done.err
    assert actions.newest(source.engine) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("order", "policy", "tokyo", "--yes"), "say either --from or --since"),
        (("order", "policy", "tokyo", "--yes", "--from", "1", "--since", "2026-07-01"), "say either --from or --since"),
        (("order", "policy", "tokyo", "--yes", "--since", "noon"), "'noon' is no time"),
        (("order", "policy", "tokyo", "--yes", "--from", "x"), "'x' is neither the number of an entry"),
        (("order", "policy", "lima", "--yes", "--from", "1"), "no entry of client policy has come from lima"),
        (("order", "policy", "tokyo", "--yes", "--from", "6"), "entries up to 5 are applied"),
    ],
)
def test_a_wrong_order_is_one_clear_sentence(replay, arguments: tuple[str, ...], words: str):
    done = replay(*arguments)
    assert done.code == 2
    assert words in done.error


def test_without_orders_the_list_says_so(replay):
    assert replay("list").out == "no replay was ordered here\n"
