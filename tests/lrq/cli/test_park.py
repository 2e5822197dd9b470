"""`lrq park`: lists, retries and discards parked transactions."""

import base64
import io

import pytest

from queues.database.transactions import writing
from queues.receive import parked
from queues.receive.log_blocks import ReceivedRow
from tests.lr_client.subscriber.arrivals import BRANCH, Arrivals
from tests.lrq.cli.command import Command
from tests.lrq.cli.source import SourceSite


@pytest.fixture
def park(lrq: Command, source: SourceSite):
    """Give a function that runs a command of `lrq park` on a site with two parked transactions."""
    for name in ("tokyo", "lima"):
        arrivals = Arrivals(source.engine, source=name)
        arrivals.tick([b"x"])
        rows = [ReceivedRow(1, 1, 0, None, b"secret payload"), ReceivedRow(2, 1, 0, None, b"more")]
        with writing(source.engine) as connection:
            parked.park(connection, arrivals.queue_id(connection), parked.LOG, BRANCH, rows, f"{name} is wrong", 3)
    return lambda command, *arguments: lrq("park", command, "--database", source.url, *arguments)


def test_parked_transactions_are_listed_with_the_reason(park):
    done = park("list")
    assert done.code == 0
    for words in ("tokyo is wrong", "lima is wrong", "18 B"):
        assert words in done.out
    assert "secret" not in done.out
    facts = park("list", "--json").json["parked"]
    assert [(each["source"], each["entries"], each["retrying"]) for each in facts] == [
        ("tokyo", 2, False),
        ("lima", 2, False),
    ]


def test_show_prints_one_transaction_with_its_entries(park):
    first, second = (each["id"] for each in park("list", "--json").json["parked"])
    done = park("show", str(first))
    assert done.code == 0
    for words in ("tokyo is wrong", "secret payload", "more"):
        assert words in done.out
    assert "lima is wrong" not in done.out
    facts = park("show", str(second), "--json").json
    assert facts["parked"]["source"] == "lima"
    assert [base64.b64decode(each["payload"]) for each in facts["entries"]] == [b"secret payload", b"more"]
    assert "and 1 more: --limit 2" in park("show", str(first), "--limit", "1").out
    assert park("show", "999").error.startswith("there is no parked transaction 999")


def test_an_empty_list_says_that_nothing_is_parked(lrq: Command, source: SourceSite):
    assert lrq("park", "list", "--database", source.url).out == "nothing is parked\n"


def test_retry_marks_parked_transactions_for_another_try(park):
    first, second = (each["id"] for each in park("list", "--json").json["parked"])
    done = park("retry", str(first))
    assert (done.code, done.out) == (0, "1 parked transaction planned: the subscriber tries again\n")
    assert [each["retrying"] for each in park("list", "--json").json["parked"]] == [True, False]
    assert park("retry", "--all", "--json").json == {"planned": [first, second]}


def test_discard_deletes_parked_transactions_after_a_confirmation(park, monkeypatch: pytest.MonkeyPatch):
    first, second = (each["id"] for each in park("list", "--json").json["parked"])
    assert park("discard", str(first), "--yes").code == 0
    assert [each["id"] for each in park("list", "--json").json["parked"]] == [second]
    assert park("discard", "--all", "--yes").out == "1 parked transaction discarded\n"


def test_without_a_confirmation_nothing_is_discarded(park, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    done = park("discard", "--all")
    assert done.code == 1
    assert done.err.endswith("lrq: aborted\n")
    assert len(park("list", "--json").json["parked"]) == 2


@pytest.mark.parametrize("command", ["retry", "discard"])
def test_an_unknown_parked_transaction_is_an_error(park, command: str):
    done = park(command, "999", *(["--yes"] if command == "discard" else []))
    assert done.code == 2
    assert "there is no parked transaction 999" in done.error


@pytest.mark.parametrize("arguments", [[], ["1", "--all"], ["1", "--client", "policy"]])
def test_retry_needs_either_ids_or_all(park, arguments: list[str]):
    assert park("retry", *arguments).code == 2
