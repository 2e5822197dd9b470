"""Replays in the console: their orders are shown; with actions, one is ordered and withdrawn."""

import re

import pytest
from sqlalchemy import update

from lr_client.replays import replay_orders, request_replay
from queues.database import tables
from queues.database.actions import newest
from queues.database.transactions import writing
from queues.receive import replays
from queues.receive.replays import ReplayState
from tests.lrq.console.world import HOSTILE
from tests.sink.applied import apply_five
from tests.waiting import eventually

PAGE = "/replay?site=paris&client=policy&source=tokyo"
WANTED = {"do": "replay", "site": "paris", "client": "policy", "source": "tokyo", "back": PAGE}
CANCEL = WANTED | {"do": "cancel replay"}


@pytest.fixture
def engine(new_site):
    """Return a site that has applied five entries of tokyo."""
    made = new_site("paris")
    apply_five(made)
    return made


def test_a_replay_is_ordered_after_a_question_and_stands_in_the_logs(engine, visit):
    visitor = visit({"paris": engine}, allow_actions=True)
    token = visitor.token(PAGE)
    asked = visitor.act(token, **WANTED, **{"from": "4"})
    assert "Apply entries from 4 on of policy from tokyo again at paris?" in asked.text
    assert "The listener undoes the entries by its on_rollback first." in asked.text
    assert replay_orders(engine) == [], "nothing happens before the confirmation"
    done = visitor.act(token, **WANTED, **{"from": "4"}, confirmed=1)
    assert (done.status_code, done.headers["location"]) == (303, PAGE)
    [order] = replay_orders(engine)
    assert (order.wish.from_seq, order.wish.undo, order.person, order.waits) == (4, True, "127.0.0.1", True)
    assert "replay of policy from tokyo ordered: entries from 4 on" in visitor.get(PAGE)
    log = visitor.get("/actions")
    assert log.count("replay of policy from tokyo ordered: entries from 4 on") == 2, "of the console, and of the site"
    assert [(each.action, each.person) for each in newest(engine)] == [("replay", "127.0.0.1")]
    eventually(lambda: "entries from 4 on" in visitor.get("/replays"))


def test_entries_since_a_time_come_without_on_rollback_if_the_form_says_so(engine, visit):
    visitor = visit({"paris": engine}, allow_actions=True)
    wanted = WANTED | {"since": " 2026-07-01T12:00Z ", "without_undo": "1"}
    asked = visitor.act(visitor.form_token(), **wanted)
    assert "Apply entries since 2026-07-01T12:00:00.000Z of policy from tokyo again at paris?" in asked.text
    assert "without a call of on_rollback" in asked.text
    assert 'name="without_undo" value="1"' in asked.text, "the confirmation carries the choice on"
    assert visitor.act(visitor.form_token(), **wanted, confirmed=1).status_code == 303
    assert [each.words for each in replay_orders(engine)] == [
        "entries since 2026-07-01T12:00:00.000Z, without on_rollback"
    ]


def test_an_order_that_waits_is_withdrawn(engine, visit):
    request_replay(engine, "policy", "tokyo", start=4, person="ada")
    visitor = visit({"paris": engine}, allow_actions=True)
    token = visitor.token(PAGE)
    assert 'id="cancel-replay"' in visitor.get(PAGE)
    assert "Cancel<span" in visitor.get("/replays")
    assert visitor.act(token, **CANCEL).status_code == 303
    assert [each.state for each in replay_orders(engine)] == [ReplayState.CANCELLED]
    assert "policy from tokyo: the order is withdrawn" in visitor.get("/actions")
    assert newest(engine)[0].person == "127.0.0.1"
    again = visitor.act(token, **CANCEL)
    assert again.status_code == 400
    assert "no order for a replay of policy from tokyo waits" in again.text
    assert "cancel replay: no order for a replay" in visitor.get("/actions")
    eventually(lambda: "Cancel<span" not in visitor.get("/replays"))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "an order for a replay needs either the first entry or a time"),
        ({"from": "4", "since": "2026-07-01"}, "an order for a replay needs either the first entry or a time"),
        ({"from": "x"}, "is neither the number of an entry"),
        ({"from": "0"}, "0 is the number of no entry"),
        ({"since": "noon"}, "is no time: write one such as 2026-07-01T12:00Z"),
    ],
)
def test_a_wrong_order_is_one_sentence_before_the_question(engine, visit, fields: dict[str, str], words: str):
    visitor = visit({"paris": engine}, allow_actions=True)
    answer = visitor.act(visitor.form_token(), **WANTED, **fields)
    assert answer.status_code == 400
    assert words in answer.text
    assert replay_orders(engine) == []


def test_an_order_that_the_site_refuses_is_told_and_logged(engine, visit):
    visitor = visit({"paris": engine}, allow_actions=True)
    answer = visitor.act(visitor.form_token(), **WANTED, **{"from": "6"}, confirmed=1)
    assert answer.status_code == 400
    assert "entries up to 5 are applied" in answer.text
    assert "replay: policy from tokyo: " in visitor.get("/actions")


def test_a_console_that_only_reads_shows_orders_and_no_form(engine, visit):
    request_replay(engine, "policy", "tokyo", start=4, person="ada")
    visitor = visit({"paris": engine})
    for page in (visitor.get("/replays"), visitor.get(PAGE)):
        assert "entries from 4 on" in page
        assert "ada" in page
        assert "<form" not in page
    assert visitor.act("0" * 64, **WANTED, **{"from": "1"}, confirmed=1).status_code == 403
    assert visitor.act("0" * 64, **CANCEL).status_code == 403
    assert [each.wish.from_seq for each in replay_orders(engine) if each.waits] == [4]


def test_a_queue_that_does_not_exist_is_one_sentence(engine, visit):
    visitor = visit({"paris": engine})
    assert "there is no such receive queue now" in visitor.get("/replay?site=paris&client=policy&source=lima", 400)


def test_a_hostile_person_branch_and_outcome_stay_text(engine, visit):
    order = request_replay(engine, "policy", "tokyo", start=4, person=HOSTILE)
    with writing(engine) as connection:
        connection.execute(update(tables.receive.replays).values(branch=HOSTILE))
    visitor = visit({"paris": engine}, allow_actions=True)
    pages = [visitor.get("/replays"), visitor.get(PAGE)]
    with writing(engine) as connection:
        replays.end(connection, order, ReplayState.REFUSED, HOSTILE)
    eventually(lambda: "refused" in visitor.get("/replays"))
    pages += [visitor.get("/replays"), visitor.get(PAGE), visitor.get("/actions")]
    fields = {"from": f"{HOSTILE}@4", "client": HOSTILE}
    pages.append(visitor.act(visitor.form_token(), **WANTED | fields).text)
    pages.append(visitor.client.get("/replay", params={"site": "paris", "client": HOSTILE, "source": HOSTILE}).text)
    for page in pages:
        assert HOSTILE not in page
        assert not re.search("<script>|<img", page)
    assert "&lt;script&gt;" in pages[0]
    assert "&lt;script&gt;" in pages[3]
