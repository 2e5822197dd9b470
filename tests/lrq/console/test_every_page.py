"""Every page of the console in a real browser: light and dark, on a phone, by keyboard, and without JavaScript."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect
from starlette.applications import Starlette
from starlette.routing import Route

from lr_client import listener, subscribe
from lrq import console
from queues import names, send_snapshot
from queues.database.transactions import writing
from queues.names import ClientName
from queues.receive.blocked import blocked
from tests.lrq.console import browser, reading_aids
from tests.lrq.console.served import served
from tests.lrq.console.world import World, world
from tests.waiting import eventually

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]

QUEUE = names.receive_queue(ClientName("policy"), names.site_id("paris"))
TOKEN = "a-token-of-24-characters"
SNAPSHOT = "/snapshot?site=paris&id="
#: One page of each kind; the page of a snapshot gets its id later.
PAGES = [
    "/", "/link?site=paris&client=policy&to=tokyo", "/link?site=paris&client=policy&to=lima",
    "/entries?site=paris&all=1", f"/entry?site=lima&queue={QUEUE}&at=1", "/snapshots", SNAPSHOT, "/parked?site=tokyo",
    "/parked/one?site=tokyo&id=1", "/parked/blocked?site=lima&client=policy&source=paris",
    "/replays", "/replay?site=tokyo&client=policy&source=paris", "/actions", "/login",
    "/link?site=paris&client=none&to=none",
]  # fmt: skip
#: The page of a ring has a test of its own, with three servers, and the stream is no page.
ELSEWHERE = {"/ring", "/events"}

#: Opens a page of the console in a new context.
Open = Callable[..., Page]


@pytest.fixture(scope="module")
def chrome() -> Iterator[Browser]:
    with browser.started() as made:
        yield made


def refuse(session: object, source_id: str, entries: object) -> None:
    raise ValueError("no")


@pytest.fixture(scope="module")
def sites() -> Iterator[World]:
    with world() as made:
        made.poison(2)
        with subscribe(made.lima.engine, listener("policy")(refuse), poll_interval=0.02):
            eventually(lambda: blocked(made.lima.engine))
        yield made


@pytest.fixture(scope="module")
def sync_id(sites: World) -> str:
    """Return the id of a snapshot that waits for its provider."""
    with writing(sites.paris.engine) as connection:
        return send_snapshot.request(connection, ClientName("policy"), ["oslo"], "for a test")[0]


@pytest.fixture(scope="module")
def application(sites: World) -> Starlette:
    return console.app(sites.engines, allow_actions=True, show_payloads=True)


@pytest.fixture(scope="module")
def origins(sites: World, application: Starlette) -> Iterator[tuple[str, str]]:
    """Serve a console without a token and one with a token; give both places."""
    with served(application) as place, served(console.app(sites.engines, token=TOKEN)) as guarded:
        eventually(lambda: all(view.status for view in application.state.console.views()))
        yield place, guarded


@pytest.fixture
def show(chrome: Browser, origins: tuple[str, str], sync_id: str) -> Iterator[Open]:
    """Open pages until the test ends: the console tells the news to a bounded number of open pages only."""
    with ExitStack() as stack:

        def go(path: str, **options: object) -> Page:
            context = chrome.new_context(**options)
            stack.callback(context.close)
            page = context.new_page()
            page.goto(f"{origins[path == '/login']}{path}{sync_id if path == SNAPSHOT else ''}")
            return page

        yield go


def test_each_kind_of_page_is_among_those_that_are_tested(application: Starlette):
    served_paths = {each.path for each in application.routes if isinstance(each, Route) and "GET" in each.methods}
    assert {urlsplit(path).path for path in PAGES} == served_paths - ELSEWHERE


@pytest.mark.parametrize("path", PAGES)
def test_a_screen_reader_finds_its_way_and_axe_no_violation_in_the_light(show: Open, path: str):
    page = show(path, color_scheme="light")
    reading_aids.assert_has_landmarks(page)
    assert reading_aids.brightness(page) > 600
    assert browser.violations(page) == []


@pytest.mark.nightly
@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_dark_in_the_dark_and_axe_finds_no_violation(show: Open, path: str):
    page = show(path, color_scheme="dark")
    assert reading_aids.brightness(page) < 120
    assert browser.violations(page) == []


@pytest.mark.nightly
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", PAGES)
def test_a_phone_shows_each_page_without_scrolling_sideways(show: Open, path: str, scheme: str):
    page = show(path, viewport=reading_aids.PHONE, color_scheme=scheme)
    reading_aids.assert_fits_a_phone(page)


@pytest.mark.nightly
@pytest.mark.parametrize("path", PAGES)
def test_the_keyboard_reaches_each_link_field_and_button(show: Open, path: str):
    reading_aids.assert_keyboard_reaches_everything(show(path))


@pytest.mark.parametrize("path", PAGES)
def test_a_page_reads_the_same_without_javascript(show: Open, path: str):
    scripted, plain = show(path), show(path, java_script_enabled=False)
    found = reading_aids.outline(scripted)
    assert found
    # The page without JavaScript may load again at this moment.
    eventually(lambda: reading_aids.outline(plain) == found)
    if scripted.locator("[data-live]").count():
        expect(plain.locator('noscript meta[http-equiv="refresh"]')).to_have_count(1, timeout=30_000)


def test_the_focus_of_the_keyboard_stays_while_the_page_changes_by_itself(show: Open, sites: World):
    page = show("/")
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="paris to lima")).filter(has_text="policy")
    behind = row.locator('[data-label="Entries behind"]')
    before = behind.inner_text()
    row.get_by_role("link", name="paris to lima").focus()
    sites.paris.send("policy", b"fresh", "lima")
    expect(behind).not_to_have_text(before, timeout=30_000)
    expect(row.get_by_role("link", name="paris to lima")).to_be_focused()


def test_the_link_page_begins_with_the_refusal_of_the_listener(origins: tuple[str, str]) -> None:
    page = httpx.get(f"{origins[0]}/link?site=paris&client=policy&to=lima", timeout=30).text
    assert '<p class="lead bad-text">its listener refuses: ValueError: no' in page
    assert "/parked?site=lima&amp;client=policy&amp;source=paris" in page
