"""Resends in the console: the page of a link shows an unfinished one; with actions, the page cancels it."""

import re

import pytest
from sqlalchemy import update

from lr_client.resends import resend_entries, resend_orders
from queues.database import tables
from queues.database.actions import newest
from queues.database.transactions import writing
from queues.send_log.resends import ResendState
from tests.lrq.cli.source import SourceSite
from tests.lrq.console.world import HOSTILE
from tests.resending import interrupted
from tests.waiting import eventually

PAGE = "/link?site=paris&client=policy&to=tokyo"
CANCEL = {
    "do": "cancel resend", "site": "paris", "client": "policy", "destination": "tokyo", "back": PAGE,
}  # fmt: skip


@pytest.fixture
def engine(new_site):
    """Return a site whose resend of three transactions was interrupted after the first."""
    source = SourceSite(new_site("paris"))
    source.session("tokyo")
    for number in range(3):
        source.transmit(b"%d" % number, to=["tokyo"])
        source.tick()
    with interrupted(source.engine, 2):
        resend_entries(source.engine, "policy", "tokyo", start=1, end=3, person="ada")
    return source.engine


def test_a_resend_is_shown_until_it_is_cancelled_after_a_question(engine, visit):
    visitor = visit({"paris": engine}, allow_actions=True)
    page = visitor.get(PAGE)
    assert "1 to 3: 1 entry sent again" in page
    assert "by ada" in page
    asked = visitor.act(visitor.form_token(), **CANCEL)
    assert "Cancel the resend of policy to tokyo at paris?" in asked.text
    assert [each.state for each in resend_orders(engine)] == [ResendState.BEGUN], "nothing happens before that"
    done = visitor.act(visitor.form_token(), **CANCEL, confirmed=1)
    assert (done.status_code, done.headers["location"]) == (303, PAGE)
    assert [each.state for each in resend_orders(engine)] == [ResendState.CANCELLED]
    assert "resend of policy to tokyo cancelled; 1 to 3: 1 entry sent again" in visitor.get("/actions")
    assert [each.person for each in newest(engine)] == ["127.0.0.1", "ada"]
    eventually(lambda: "Range once more" not in visitor.get(PAGE))
    again = visitor.act(visitor.form_token(), **CANCEL, confirmed=1)
    assert again.status_code == 400
    assert "no resend of policy to tokyo was interrupted" in again.text


def test_a_later_resend_than_the_shown_one_is_not_cancelled(engine, visit):
    visitor = visit({"paris": engine}, allow_actions=True)
    answer = visitor.act(visitor.form_token(), **CANCEL, order="an earlier one", confirmed=1)
    assert answer.status_code == 400
    assert [each.state for each in resend_orders(engine)] == [ResendState.BEGUN]


def test_a_console_that_only_reads_shows_the_resend_and_no_form(engine, visit):
    visitor = visit({"paris": engine})
    page = visitor.get(PAGE)
    assert "1 to 3: 1 entry sent again" in page
    assert "<form" not in page
    assert visitor.act("0" * 64, **CANCEL, confirmed=1).status_code == 403
    assert [each.state for each in resend_orders(engine)] == [ResendState.BEGUN]


def test_a_hostile_person_stays_text(engine, visit):
    with writing(engine) as connection:
        connection.execute(update(tables.resends.resends).values(person=HOSTILE))
    visitor = visit({"paris": engine}, allow_actions=True)
    pages = [visitor.get(PAGE), visitor.act(visitor.form_token(), **CANCEL | {"client": HOSTILE}).text]
    for page in pages:
        assert HOSTILE not in page
        assert not re.search("<script>|<img", page)
        assert "&lt;script&gt;" in page
