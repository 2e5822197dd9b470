"""The actions of the console: their effect, their confirmation, and the log."""

import re

from lr_client import listener, subscribe
from lrq.console.reading import PageThreads
from queues import send_snapshot
from queues.database.actions import newest
from queues.database.transactions import reading, writing
from queues.names import ClientName, SiteId
from queues.receive.blocked import blocked
from queues.receive.parked import discard_parked, parked
from queues.send_log.links import set_wish
from queues.send_log.port import SessionKey
from queues.states import LinkWish, SnapshotState
from tests.lr_client.subscriber.arrivals import Arrivals
from tests.waiting import eventually


def chosen(sites):
    return [each.id for each in parked(sites.tokyo.engine)]


def test_discard_asks_first_and_then_deletes(sites, visit):
    sites.poison(2)
    visitor = visit(sites.engines, allow_actions=True)
    first = chosen(sites)[0]
    token = visitor.token("/parked?site=tokyo")
    asked = visitor.act(token, do="discard", site="tokyo", id=first, back="/parked?site=tokyo")
    assert asked.status_code == 200
    assert "for good?" in asked.text
    assert first in chosen(sites), "nothing happens before the confirmation"
    done = visitor.act(token, do="discard", site="tokyo", id=first, back="/parked?site=tokyo", confirmed=1)
    assert (done.status_code, done.headers["location"]) == (303, "/parked?site=tokyo")
    assert first not in chosen(sites)
    assert "1 parked transaction" in visitor.get("/parked?site=tokyo")
    log = visitor.get("/actions")
    assert f"1 parked transaction ({first}) discarded for good" in log
    assert "127.0.0.1" in log


def test_all_that_match_are_retried_and_no_others(sites, visit):
    sites.poison(2)
    visitor = visit(sites.engines, allow_actions=True)
    token = visitor.token("/parked?site=tokyo")
    none = visitor.act(token, do="retry", site="tokyo", all=1, text="another error")
    assert none.status_code == 400
    sites.listener.cured = True
    try:
        done = visitor.act(token, do="retry", site="tokyo", all=1, text="ValueError", back="/parked?site=tokyo")
        assert done.status_code == 303
        eventually(lambda: not chosen(sites))
    finally:
        sites.listener.cured = False
    assert "planned for another try" in visitor.get("/actions")


def test_the_live_part_of_another_tab_does_not_take_the_outcome(sites, visit):
    visitor = visit(sites.engines, allow_actions=True)
    token = visitor.form_token()
    visitor.act(token, do="request", site="lima", client="policy", destination="paris", back="/snapshots")
    assert 'class="outcome"' not in visitor.client.get("/", headers={"hx-request": "true"}).text
    assert "of policy for paris requested" in visitor.get("/snapshots").partition('class="outcome"')[2][:200]
    assert 'class="outcome"' not in visitor.get("/snapshots")


def test_the_outcome_of_an_action_that_outlasts_its_page_is_noted(sites, visit):
    visitor = visit(sites.engines, allow_actions=True)
    watch = visitor.application.state.console.watch("lima")
    watch.pages = PageThreads("lima", seconds=0.05)
    token = visitor.form_token()
    with writing(sites.lima.engine):
        late = visitor.act(token, do="request", site="lima", client="policy", destination="tokyo")
        assert late.status_code == 503
        assert "the action may still be carried out" in late.text
    log = visitor.application.state.console.log
    eventually(lambda: "of policy for tokyo requested" in log.listing()[0].words)
    watch.pages.close()


def fields_of(page: str) -> dict[str, str]:
    """Return the hidden fields of the only form of a page."""
    return dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page))


def test_all_that_match_are_discarded_but_for_those_parked_after_the_question(sites, visit):
    sites.poison(2)
    visitor = visit(sites.engines, allow_actions=True)
    before = chosen(sites)
    token = visitor.token("/parked?site=tokyo")
    asked = visitor.act(token, do="discard", site="tokyo", all=1, text="ValueError").text
    assert f"Discard {len(before)} parked transactions of tokyo for good?" in asked
    sites.poison()
    assert visitor.act(token, do="park", site="tokyo", all=1, text="another error").status_code == 200
    assert visitor.act(**fields_of(asked)).status_code == 303
    [kept] = chosen(sites)
    assert kept not in before


def test_a_transaction_that_has_gone_meanwhile_is_told(sites, visit):
    sites.poison()
    visitor = visit(sites.engines, allow_actions=True)
    token = visitor.token("/parked?site=tokyo")
    visitor.act(token, do="discard", site="tokyo", id=999_999, confirmed=1)
    assert "1 had gone before" in visitor.get("/actions")


def refuse(session, source_id, entries):
    raise ValueError("no")


def test_another_entry_than_the_shown_one_is_not_parked(new_site, visit):
    engine = new_site("lima")
    Arrivals(engine).tick([b"e1"], [b"e2"])
    with subscribe(engine, listener("policy")(refuse), poll_interval=0.02):
        eventually(lambda: blocked(engine))
        visitor = visit({"lima": engine}, allow_actions=True)
        shown = fields_of(visitor.get("/parked/blocked?site=lima&client=policy&source=tokyo"))
        asked = visitor.act(**shown, do="park").text
        assert "Park the entry at 1 that blocks policy from tokyo at lima?" in asked
        answers = [visitor.act(**fields_of(asked)).status_code]
        eventually(lambda: [each.failure.seq for each in blocked(engine)] == [2])
        again = visitor.act(**fields_of(asked))
    assert (answers, again.status_code) == ([303], 400)
    assert "the entry at 1 of policy from tokyo blocks no more, but the one at 2 does" in again.text
    assert [each.sequence for each in parked(engine)] == [1]


def test_the_entry_that_blocks_a_queue_is_parked_after_a_question(new_site, visit):
    engine = new_site("lima")
    Arrivals(engine).tick([b"e1"], [b"e2"])
    with subscribe(engine, listener("policy")(refuse), poll_interval=0.02):
        eventually(lambda: blocked(engine))
    visitor = visit({"lima": engine}, allow_actions=True)
    token = visitor.token("/parked/blocked?site=lima&client=policy&source=tokyo")
    wanted = {"do": "park", "site": "lima", "client": "policy", "source": "tokyo", "back": "/parked?site=lima"}
    asked = visitor.act(token, **wanted)
    assert "Park the entry that blocks policy from tokyo at lima?" in asked.text
    assert parked(engine) == []
    assert visitor.act(token, **wanted, confirmed=1).status_code == 303
    assert [each.sequence for each in parked(engine)] == [1]
    assert "the transaction at 1 of policy from tokyo is parked" in visitor.get("/actions")
    [stored] = newest(engine)
    assert (stored.action, stored.person) == ("park now", "127.0.0.1")


def test_retry_and_discard_are_stored_at_the_site(sites, visit):
    sites.poison()
    visitor = visit(sites.engines, allow_actions=True)
    token = visitor.token("/parked?site=tokyo")
    gone = chosen(sites)[0]
    visitor.act(token, do="discard", site="tokyo", id=gone, confirmed=1)
    assert (newest(sites.tokyo.engine)[0].action, newest(sites.tokyo.engine)[0].person) == ("discard", "127.0.0.1")
    discard_parked(sites.tokyo.engine, chosen_after(sites), person="ada <script>")
    shown = visit(sites.engines).get("/actions")
    assert "ada &lt;script&gt;" in shown, "also the actions of the command line, for another console"
    assert f"parked transaction {gone} of 1 entry deleted" in shown


def chosen_after(sites) -> int:
    sites.poison()
    return chosen(sites)[0]


def test_snapshots_are_requested_and_cancelled(new_site, visit):
    engine = new_site("paris")
    with writing(engine) as connection:
        (sync_id,) = send_snapshot.request(connection, ClientName("policy"), ["tokyo"], "for a test")
    visitor = visit({"paris": engine}, allow_actions=True)
    token = visitor.token("/snapshots")
    asked = visitor.act(token, do="cancel", site="paris", sync_id=sync_id)
    assert "Cancel snapshot" in asked.text
    assert visitor.act(token, do="cancel", site="paris", sync_id=sync_id, confirmed=1).status_code == 303
    with reading(engine) as connection:
        found = send_snapshot.find(connection, sync_id)
        assert found is not None
        assert found.state is SnapshotState.CANCELLED
        assert found.error == "cancelled in the console by 127.0.0.1"
    assert visitor.act(token, do="request", site="paris", client="policy", destination="tokyo").status_code == 303
    with reading(engine) as connection:
        newest = send_snapshot.listing(connection, limit=1)[0]
        assert newest.state is SnapshotState.REQUESTED


def test_the_cancel_of_a_replaced_snapshot_leaves_the_newer_request(new_site, visit):
    engine = new_site("paris")
    with writing(engine) as connection:
        asked = [send_snapshot.request(connection, ClientName("policy"), ["tokyo"], "for a test")[0] for _ in "12"]
    visitor = visit({"paris": engine}, allow_actions=True)
    token = visitor.token("/snapshots")
    assert visitor.act(token, do="cancel", site="paris", sync_id=asked[0], confirmed=1).status_code == 303
    with reading(engine) as connection:
        found = [send_snapshot.find(connection, sync_id) for sync_id in asked]
    assert [each and each.state for each in found] == [SnapshotState.CANCELLED, SnapshotState.REQUESTED]


def test_no_snapshot_is_requested_for_an_ended_link_or_the_site_itself(new_site, visit):
    engine = new_site("paris")
    with writing(engine) as connection:
        set_wish(connection, [SessionKey(ClientName("policy"), SiteId("tokyo"))], LinkWish.ENDED)
    visitor = visit({"paris": engine}, allow_actions=True)
    token = visitor.form_token()
    for destination in ("tokyo", "paris"):
        done = visitor.act(token, do="request", site="paris", client="policy", destination=destination)
        assert done.status_code == 400
    with reading(engine) as connection:
        assert send_snapshot.listing(connection) == []


def test_a_refused_action_is_in_the_log_too(new_site, visit):
    visitor = visit({"paris": new_site("paris")}, allow_actions=True)
    token = visitor.form_token()
    assert visitor.act(token, do="request", site="paris", client="policy", destination="not a site").status_code == 400
    assert "is not a valid site id" in visitor.get("/actions")


def test_the_way_back_stays_in_the_console(new_site, visit):
    engine = new_site("paris")
    visitor = visit({"paris": engine}, allow_actions=True)
    token = visitor.form_token()
    for back in ("//evil.example", "https://evil.example", "/\\evil.example", "/a\r\nset-cookie: b"):
        done = visitor.act(token, do="request", site="paris", client="policy", destination="tokyo", back=back)
        assert done.headers["location"] == "/"


def test_a_long_form_is_refused(new_site, visit):
    visitor = visit({"paris": new_site("paris")}, allow_actions=True)
    answer = visitor.act("0" * 64, do="retry", site="paris", id="1" * 200_000)
    assert answer.status_code == 400
    assert re.search("the form is too long", answer.text)
