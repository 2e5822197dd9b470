"""The pages of the console over three running sites."""

import html
import re

import pytest
from sqlalchemy import update

from lr_client import listener, subscribe
from queues import names, send_snapshot
from queues.clock import now_us
from queues.database import tables
from queues.database.transactions import writing
from queues.names import ClientName
from queues.receive.blocked import blocked
from queues.send_snapshot.attempts import expect, report
from tests.lr_client.snapshot.providing import claim, request, write_part
from tests.lr_client.subscriber.arrivals import Arrivals
from tests.lrq.console.world import HOSTILE
from tests.waiting import eventually

PAGES = ["/", "/entries", "/snapshots", "/parked", "/replays", "/actions", "/link?site=paris&client=policy&to=tokyo"]


@pytest.mark.parametrize("path", PAGES)
def test_each_page_has_landmarks_a_title_and_one_heading(sites, visit, path):
    page = visit(sites.engines).get(path)
    assert "<main" in page
    assert 'aria-label="Pages"' in page
    assert page.count("<h1") == 1
    assert "· lrq console</title>" in page


def test_the_map_shows_each_link_with_the_age_of_its_applied_entries(sites, visit):
    visitor = visit(sites.engines)
    # Lima has no subscriber, and each site is read at its own time.
    words = ("current", " behind</td>", "no subscriber of policy works here")
    page = eventually(lambda: found if all(each in (found := visitor.get("/")) for each in words) else "")
    assert "/link?site=paris&amp;client=policy&amp;to=tokyo" in page


def test_the_addresses_name_a_site_that_was_given_without_its_name(sites, visit):
    visitor = visit({"site 1": sites.paris.engine, "site 2": sites.tokyo.engine})
    assert "/link?site=paris&amp;client=policy&amp;to=tokyo" in visitor.get("/")
    for site in ("paris", "site+1"):
        page = visitor.get(f"/link?site={site}&client=policy&to=tokyo")
        assert "/entries?site=paris&amp;" in page
        assert "/entries?site=tokyo&amp;" in page


def test_two_databases_of_one_site_have_addresses_of_their_own(sites, visit):
    page = visit({"site 1": sites.paris.engine, "site 2": sites.paris.engine}).get("/")
    assert "/link?site=site+1&amp;client=policy&amp;to=tokyo" in page
    assert "/link?site=site+2&amp;client=policy&amp;to=tokyo" in page


def test_a_site_with_a_trouble_says_so_beside_its_servers(sites, visit):
    visitor = visit(sites.engines)
    page = eventually(lambda: (found := visitor.get("/")).count("no subscriber of policy works here") and found)
    (of_lima,) = re.findall(r"<strong>lima</strong>(.*?)</div>", page)
    assert "1 server works, 1 trouble" in of_lima


def test_the_link_page_shows_state_positions_and_the_other_side(sites, visit):
    page = visit(sites.engines).get("/link?site=paris&client=policy&to=tokyo")
    assert "log-entry sync" in page
    assert names.receive_queue(ClientName("policy"), names.site_id("paris")) in page
    assert 'class="plot"' in page


def test_the_link_page_shows_the_used_share_of_the_window(sites, visit):
    visitor = visit(sites.engines)

    def shown() -> bool:
        # The server at work may store its own value in between.
        with writing(sites.paris.engine) as connection:
            connection.execute(update(tables.sessions.sessions).values(window_percent=70))
        return "<dt>Window in use</dt><dd>70 %</dd>" in visitor.get("/link?site=paris&client=policy&to=tokyo")

    eventually(shown)


def test_a_link_that_does_not_exist_is_one_sentence(sites, visit):
    assert "there is no such link now" in visit(sites.engines).get("/link?site=paris&client=none&to=none", 400)


def test_a_number_of_thousands_of_digits_is_no_failure_of_the_console(sites, visit):
    visitor, long = visit(sites.engines), "9" * 5_000
    assert "name a parked transaction by its id" in visitor.get(f"/parked/one?site=tokyo&id={long}", 400)
    visitor.get(f"/parked?site=tokyo&start={long}")
    visitor.get(f"/entries?site=paris&after={long}.1", 400)
    visitor.get(f"/parked/blocked?site=tokyo&client=none&source=paris&shard={long}", 400)


def test_entries_are_filtered_by_client_site_key_and_time(sites, visit):
    visitor = visit(sites.engines)
    page = visitor.get("/entries?site=paris&to=lima&all=1")
    assert page.count('data-label="Position"') == 3
    assert "lrq_logentry_lima" in page
    assert visitor.get("/entries?site=paris&to=lima&all=1&key=rule-1").count('data-label="Position"') == 1
    assert "Nothing is outstanding that matches" in visitor.get("/entries?site=paris&client=other")
    assert "Nothing is outstanding that matches" in visitor.get("/entries?site=paris&since=2100-01-01T00:00")
    assert "is no time" in visitor.get("/entries?site=paris&since=yesterday", 400)


def test_a_receive_queue_can_be_read_too(sites, visit):
    queue = names.receive_queue(ClientName("policy"), names.site_id("paris"))
    assert "lrq_recv_policy" in visit(sites.engines).get(f"/entries?site=lima&queue={queue}")


def test_payloads_are_hidden_unless_allowed(sites, visit):
    sites.poison()
    for page in ("/entries?site=paris&all=1", "/parked/one?site=tokyo&id=1"):
        assert "&#34;rule&#34;" not in visit(sites.engines).get(page)
        assert "poison 0" not in visit(sites.engines).get(page)
        assert "hidden" in visit(sites.engines).get(page)
    assert "the console hides payloads" in visit(sites.engines).get("/entry?site=paris&queue=x&at=1.1", 400)


def test_allowed_payloads_are_shown_as_text_hex_and_by_decoders(sites, visit):
    def shout(payload: bytes) -> str | None:
        return payload.decode().upper() if b"rule" in payload else None

    queue = names.receive_queue(ClientName("policy"), names.site_id("paris"))
    visitor = visit(sites.engines, show_payloads=True, decoders=[shout])
    page = visitor.get(f"/entry?site=lima&queue={queue}&at=1")
    assert "<h3>shout</h3>" in page
    assert "{&#34;RULE&#34;: 0}" in page
    assert "7b 22 72 75 6c 65" in page


def test_a_dead_letter_shows_the_listeners_error_and_its_headers(sites, visit):
    sites.poison()
    page = visit(sites.engines, show_payloads=True).get("/parked/one?site=tokyo&id=1")
    assert "ValueError: the entry is poison" in page
    assert "key-0" in page


def test_messages_of_errors_are_hidden_like_payloads_but_not_their_class_place_and_traceback(sites, visit):
    sites.poison()
    visitor = visit(sites.engines)
    for path in ("/", "/parked?site=tokyo", "/parked/one?site=tokyo&id=1", "/link?site=paris&client=policy&to=tokyo"):
        assert "the entry is poison" not in visitor.get(path)
    for path in ("/parked?site=tokyo", "/parked/one?site=tokyo&id=1"):
        page = visitor.get(path)
        assert "ValueError" in page
        assert "world.py, line " in page
    assert "in Careful.process_updates_in_log_entry_sync" in visitor.get("/parked/one?site=tokyo&id=1")
    assert "0 parked transactions" in visitor.get("/parked?site=tokyo&text=poison"), "a filter tells no message"
    assert "0 parked transactions" not in visitor.get("/parked?site=tokyo&text=ValueError")


def test_the_page_of_dead_letters_begins_with_a_site_that_has_some(sites, visit):
    sites.poison()
    visitor = visit(sites.engines)
    eventually(lambda: '<h1>Dead letters <span class="faint">tokyo</span>' in visitor.get("/parked"))
    assert '<h1>Dead letters <span class="faint">paris</span>' in visitor.get("/parked?site=paris")


def refuse(session, source_id, entries):
    raise ValueError(f"cannot apply {entries[0].opaque_payload!r}")


def test_a_blocked_queue_shows_its_failure_without_the_message(new_site, visit):
    engine = new_site("lima")
    arrivals = Arrivals(engine)
    arrivals.tick([b"a secret"], [b"more"])
    with subscribe(engine, listener("policy")(refuse), poll_interval=0.02):
        eventually(lambda: blocked(engine))
    visitor = visit({"lima": engine})
    shown = visitor.get("/parked?site=lima")
    path = html.unescape(re.search(r'href="(/parked/blocked[^"]*)"', shown)[1])
    for page in (visitor.get("/"), shown, visitor.get(path)):
        assert "cannot apply" not in page
        assert "a secret" not in page
    assert "test_pages.py, line " in shown
    assert "ValueError" in visitor.get("/")
    assert "in refuse" in visitor.get(path)
    assert "cannot apply" in visit({"lima": engine}, show_payloads=True).get(path)


def test_no_page_holds_hostile_text_unescaped(sites, visit):
    sites.poison()
    visitor = visit(sites.engines, show_payloads=True, allow_actions=True)
    hostile = "%3Cscript%3Ealert(1)%3C/script%3E%22%27"
    paths = [
        *PAGES, "/parked?site=tokyo", "/parked/one?site=tokyo&id=1", "/entries?site=paris&all=1",
        f"/entries?client={hostile}", f"/parked?site=tokyo&text={hostile}", f"/link?site=paris&client={hostile}",
        f"/entries?site={hostile}", f"/entry?site=paris&queue={hostile}&at={hostile}", f"/snapshot?id={hostile}",
    ]  # fmt: skip
    for path in paths:
        page = visitor.client.get(path).text
        assert HOSTILE not in page
        assert "<script>" not in page
        assert "<img" not in page


def test_a_snapshot_shows_its_request(new_site, visit):
    engine = new_site("paris")
    with writing(engine) as connection:
        (sync_id,) = send_snapshot.request(connection, ClientName("policy"), ["tokyo"], "for a test")
    visitor = visit({"paris": engine})
    assert sync_id[:8] in visitor.get("/snapshots")
    page = visitor.get(f"/snapshot?site=paris&id={sync_id}")
    assert "for a test" in page
    assert "No part is stored now" in page
    assert "there is no such snapshot" in visitor.get("/snapshot?site=paris&id=none", 400)


def test_a_snapshot_in_building_shows_its_parts_speed_and_time_left(new_site, visit):
    engine = new_site("paris")
    (sync_id,) = request(engine, "tokyo")
    attempt = claim(engine)
    for number, rows in enumerate(([b"1", b"2", b"3"], [b"4"])):
        write_part(engine, attempt, number, rows)
    with writing(engine) as connection:
        expect(connection, attempt, 16)
        report(connection, attempt, rows=4, payload_bytes=4, progress="of two tables")
        ten_seconds_ago = now_us() - 10_000_000
        connection.execute(update(tables.snapshots.snapshots).values(pinned_us=ten_seconds_ago))
    page = visit({"paris": engine}).get(f"/snapshot?site=paris&id={sync_id}")
    text = " ".join(re.sub(r"<[^>]*>", " ", page).split())
    assert "Rows 4 4 B, 16 expected" in text
    assert re.search(r"Speed 0\.[0-9]+/s", text)
    assert re.search(r"Time left [0-9.]+ (s|min)", text)
    assert 'aria-label="25 percent"' in page
    assert "of two tables" in text
    assert "Part Rows 0 3 1 1" in text


def test_pages_live_below_the_path_of_a_mount(sites, visit):
    from starlette.applications import Starlette
    from starlette.routing import Mount

    from lrq import console

    inner = console.app(sites.engines)
    visitor = visit({}, ready=False, application=Starlette(routes=[Mount("/ops/lrq", inner)]))
    visitor.get("/ops/lrq/")
    page = eventually(lambda: (found := visitor.get("/ops/lrq/")).count("1 server works") == 3 and found)
    assert 'href="/ops/lrq/static/console.css"' in page
    assert 'aria-current="page"' in page
    assert visitor.client.get("/ops/lrq/static/console.css").status_code == 200
    inner.state.console.stop()
