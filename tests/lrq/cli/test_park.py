"""`lrq park`: lists, retries and discards parked transactions."""

import base64
import io

import pytest
from sqlalchemy import event

from lr_client import listener, subscribe
from lrq.cli.person import person
from queues.clock import iso, now_us
from queues.database import actions
from queues.database.transactions import reading, writing
from queues.errors import UsageError
from queues.receive import failures, parked, parked_rows
from queues.receive.failures import Failure
from queues.receive.received_rows import ReceivedRow
from tests.lr_client.subscriber.arrivals import BRANCH, Arrivals
from tests.lrq.cli.command import Command
from tests.lrq.cli.source import SourceSite
from tests.waiting import eventually

TRACE = 'Traceback (most recent call last):\n  File "/app/shop.py", line 7, in apply\nValueError'


@pytest.fixture
def park(lrq: Command, source: SourceSite):
    """Give a function that runs a command of `lrq park` on a site with two parked transactions."""
    for name in ("tokyo", "lima"):
        arrivals = Arrivals(source.engine, source=name)
        arrivals.tick([b"x"])
        rows = [ReceivedRow(1, 1, 0, None, b"secret payload"), ReceivedRow(2, 1, 0, None, b"more")]
        with writing(source.engine) as connection:
            failure = Failure(
                1, 3, f"ValueError: {name} is wrong", "ValueError", "shop.py, line 7, in apply", 1, 2, TRACE
            )
            parked_rows.park(connection, arrivals.queue_id(connection), parked_rows.LOG, BRANCH, rows, failure)
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
    for number in ("999", str(2**63), str(-(2**64))):
        missing = park("show", "--", number)
        assert (missing.code, missing.error.partition(":")[0]) == (2, f"there is no parked transaction {number}")


def test_an_empty_list_says_that_nothing_is_parked(lrq: Command, source: SourceSite):
    assert lrq("park", "list", "--database", source.url).out == "nothing is parked\n"


def test_retry_without_a_subscriber_says_that_the_transaction_waits(park):
    first, second = (each["id"] for each in park("list", "--json").json["parked"])
    done = park("retry", str(first))
    words = f"{first} still waits for its subscriber: no subscriber of policy works now\n"
    assert (done.code, done.out) == (3, words)
    assert [each["retrying"] for each in park("list", "--json").json["parked"]] == [True, False]
    assert park("retry", "--all", "--json").json == {
        "planned": [first, second],
        "applied": [],
        "refused": [],
        "waiting": [first, second],
    }


def test_retry_says_which_transaction_is_applied_and_which_is_refused_again(park, source: SourceSite):
    _, second = (each["id"] for each in park("list", "--json").json["parked"])

    def apply(session, source_id, entries):
        if source_id == "lima":
            raise ValueError("lima is still wrong")

    with subscribe(source.engine, listener("policy")(apply), poll_interval=0.02):
        done = park("retry", "--all", "--timeout", "60")
    told = done.out.splitlines()
    assert done.code == 3
    assert told[0] == "1 parked transaction applied"
    assert told[1].startswith(f"{second} was refused again: ValueError: lima is still wrong (test_park.py, line ")
    [left] = park("list", "--json").json["parked"]
    assert (left["id"], left["attempts"]) == (second, 4)


def test_a_parked_transaction_shows_its_class_place_times_and_traceback(park):
    first = park("list", "--json").json["parked"][0]
    assert (first["error_class"], first["place"], first["attempts"]) == ("ValueError", "shop.py, line 7, in apply", 3)
    assert (first["first_failed_at"], first["last_failed_at"]) == (iso(1), iso(2))
    shown = park("show", str(first["id"]))
    assert 'File "/app/shop.py", line 7, in apply' in shown.out
    assert "shop.py, line 7, in apply" in park("list").out
    assert park("show", str(first["id"]), "--json").json["parked"]["trace"] == TRACE


#: 4h 10m: in hours and minutes the words stay the same for 60 s on a slow machine.
LONG_US = 15_000_000_000


def block(engine, **changes) -> None:
    """Record a failure of the first entry from tokyo."""
    failure = Failure(
        1, 3, "ValueError: no", "ValueError", "shop.py, line 7, in apply", now_us() - LONG_US, now_us(), TRACE
    )
    with reading(engine) as connection:
        queue_id = Arrivals(engine).queue_id(connection)
    failures.record(engine, queue_id, failure._replace(**changes))


def test_a_blocked_queue_is_listed_since_when_and_with_its_error(park, lrq: Command, source: SourceSite):
    block(source.engine)
    listed = park("list").out
    for words in ("Blocked", "4h 10m", "ValueError: no", "shop.py, line 7, in apply"):
        assert words in listed
    [facts] = park("list", "--json").json["blocked"]
    assert (facts["client"], facts["source"], facts["sequence"], facts["tries"]) == ("policy", "tokyo", 1, 3)
    assert 'File "/app/shop.py", line 7, in apply' in park("blocked", "policy", "tokyo").out
    assert park("blocked", "policy", "tokyo", "--json").json["blocked"]["trace"] == TRACE
    assert "is blocked for 4h 10m, refused 3 times: ValueError (shop.py" in lrq("status", "--database", source.url).out


def test_park_now_parks_the_entry_that_blocks_and_stores_the_action(park, source: SourceSite):
    with subscribe(source.engine, listener("policy")(never), poll_interval=0.02):
        eventually(lambda: park("list", "--json").json["blocked"])
    before = len(park("list", "--json").json["parked"])
    done = park("now", "policy", "tokyo", "--yes")
    assert (
        done.out
        == "the transaction at 1 of policy from tokyo is parked (1 entry): the subscriber goes on with later entries\n"
    )
    assert len(park("list", "--json").json["parked"]) == before + 1
    [stored] = actions.newest(source.engine)
    assert (stored.action, stored.person) == ("park now", person())


def never(session, source_id, entries):
    raise ValueError("never")


def test_park_now_asks_first(park, source: SourceSite, monkeypatch: pytest.MonkeyPatch):
    block(source.engine)
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    done = park("now", "policy", "tokyo")
    assert done.code == 1
    assert "Park the entry at 1 of policy from tokyo" in done.err


@pytest.mark.parametrize("command", ["now", "blocked"])
def test_a_queue_that_no_entry_blocks_is_told(park, command: str):
    assert "no entry blocks policy from tokyo" in park(command, "policy", "tokyo").error
    assert "no entry of client policy has come from oslo" in park(command, "policy", "oslo").error


def test_retry_and_discard_are_stored_as_actions(park, source: SourceSite):
    first, second = (each["id"] for each in park("list", "--json").json["parked"])
    park("retry", str(first))
    park("discard", str(second), "--yes")
    stored = [(each.action, each.person, each.outcome) for each in actions.newest(source.engine)]
    assert sorted(stored) == [
        ("discard", person(), f"parked transaction {second} of 2 entries deleted"),
        ("retry", person(), f"parked transaction {first} planned for another try"),
    ]


def test_discard_deletes_parked_transactions_after_a_confirmation(park, monkeypatch: pytest.MonkeyPatch):
    first, second = (each["id"] for each in park("list", "--json").json["parked"])
    assert park("discard", str(first), "--yes").code == 0
    assert [each["id"] for each in park("list", "--json").json["parked"]] == [second]
    assert park("discard", "--all", "--yes").out == "1 parked transaction discarded\n"


@pytest.mark.parametrize("command", ["discard", "retry"])
def test_a_transaction_that_another_operator_discards_meanwhile_stops_nothing(
    park, source: SourceSite, monkeypatch: pytest.MonkeyPatch, command: str
):
    look = parked.parked

    def look_too_early(*asked, **more):
        found = look(*asked, **more)
        parked.discard_parked(source.engine, found[0].id)
        return found

    monkeypatch.setattr(parked, "parked", look_too_early)
    done = park(command, "--all", *(["--yes"] if command == "discard" else []))
    monkeypatch.undo()
    if command == "discard":
        assert (done.code, done.out) == (0, "1 parked transaction discarded\n")
        assert park("list", "--json").json["parked"] == []
    else:
        assert (done.code, done.out.splitlines()[0]) == (3, "1 parked transaction applied")
        assert [each["retrying"] for each in park("list", "--json").json["parked"]] == [True]


# On SQLite, a change has the lock of all writers before it looks.
@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
@pytest.mark.parametrize("change", [parked.discard_parked, parked.retry_parked])
def test_a_transaction_that_a_retry_applies_meanwhile_is_not_told_as_discarded(park, source: SourceSite, change):
    letter = parked.parked(source.engine)[0]
    done = list[int]()

    def apply_first(_connection, _cursor, statement: str, *_: object) -> None:
        if statement.startswith(("DELETE FROM lrq_parked", "UPDATE lrq_parked")) and not done:
            done.append(letter.id)
            parked.discard_parked(source.engine, letter.id)

    event.listen(source.engine, "before_cursor_execute", apply_first)
    with pytest.raises(UsageError, match="no parked transaction"):
        change(source.engine, letter.id, person="ada")
    assert actions.newest(source.engine) == []


def test_without_a_confirmation_nothing_is_discarded(park, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    done = park("discard", "--all")
    assert done.code == 1
    assert done.err.endswith("lrq: aborted: the answer was not yes, and --yes gives that answer\n")
    assert len(park("list", "--json").json["parked"]) == 2


@pytest.mark.parametrize("command", ["retry", "discard"])
def test_an_unknown_parked_transaction_is_an_error(park, command: str):
    done = park(command, "999", *(["--yes"] if command == "discard" else []))
    assert done.code == 2
    assert "there is no parked transaction 999" in done.error


@pytest.mark.parametrize("arguments", [[], ["1", "--all"], ["1", "--client", "policy"]])
def test_retry_needs_either_ids_or_all(park, arguments: list[str]):
    assert park("retry", *arguments).code == 2
