"""The console in a real browser: pages, live updates, actions, hostile texts, keyboard, no JavaScript, many tabs."""

import threading
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from playwright.sync_api import Browser, Page, expect
from sqlalchemy import event, text

from lr_client import listener, request_replay, subscribe
from lrq import console
from queues import names
from queues.names import ClientName
from queues.receive.blocked import blocked
from queues.receive.parked import parked
from tests.lr_client.subscriber.arrivals import Arrivals
from tests.lrq.console import browser
from tests.lrq.console.served import served
from tests.lrq.console.world import HOSTILE, World, world
from tests.sink.applied import apply_five
from tests.waiting import eventually

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]

PAGES = [
    "/", "/link?site=paris&client=policy&to=tokyo", "/entries?site=paris&all=1", "/snapshots", "/parked?site=tokyo",
    "/parked/one?site=tokyo&id=1", "/replays", "/replay?site=tokyo&client=policy&source=paris", "/actions",
]  # fmt: skip
PHONE = {"width": 390, "height": 844}
DESK = {"width": 1280, "height": 800}
QUEUE = names.receive_queue(ClientName("policy"), names.site_id("paris"))

#: Opens a page of the console; fails the test for an error in the browser's console at its end.
Open = Callable[..., Page]


@pytest.fixture(scope="module")
def chrome() -> Iterator[Browser]:
    with browser.started() as made:
        yield made


@pytest.fixture(scope="module")
def sites() -> Iterator[World]:
    with world() as made:
        made.poison(2)
        yield made


@pytest.fixture(scope="module")
def application(sites: World):
    return console.app(sites.engines, allow_actions=True, show_payloads=True)


@pytest.fixture(scope="module")
def place(application) -> Iterator[str]:
    with served(application) as url:
        eventually(lambda: all(view.status for view in application.state.console.views()))
        yield url


@pytest.fixture
def show(chrome: Browser, place: str) -> Iterator[Open]:
    contexts, problems = [], []

    def go(path: str = "/", **options) -> Page:
        context = chrome.new_context(viewport=options.pop("viewport", DESK), **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(place + path)
        return page

    yield go
    for context in contexts:
        context.close()
    assert problems == []


def test_the_map_changes_by_itself_when_a_site_changes(show: Open, sites: World):
    page = show("/")
    lag = (
        page.get_by_role("row")
        .filter(has=page.get_by_role("link", name="paris to lima"))
        .filter(has_text="policy")
        .locator('[data-label="Entries behind"]')
    )
    before = lag.inner_text()
    page.evaluate("window.same = true")
    for _ in range(3):
        sites.paris.send("policy", b"fresh", "lima")
    expect(lag).not_to_have_text(before, timeout=30_000)
    assert page.evaluate("window.same"), "the page was not loaded again"


@pytest.mark.nightly
def test_an_open_page_asks_for_the_token_when_its_session_has_ended(chrome: Browser, sites: World):
    token = "a-token-of-24-characters"
    application = console.app(sites.engines, token=token)
    with served(application) as url, closing(chrome.new_context(viewport=DESK)) as context:
        page = context.new_page()
        page.goto(url)
        page.get_by_label("Token of the console").fill(token)
        page.get_by_role("button", name="Open").click()
        expect(page.get_by_role("heading", name="Links", exact=True)).to_be_visible(timeout=30_000)
        # So it is after a restart of the console with another token.
        context.clear_cookies()
        expect(page.get_by_label("Token of the console")).to_be_visible(timeout=30_000)


def test_an_open_page_that_is_refused_later_says_so(chrome: Browser, sites: World):
    people = ["ada"]
    application = console.app(sites.engines, authorize=lambda _request: people[0] if people else None)
    with served(application) as url, closing(chrome.new_context(viewport=DESK)) as context:
        page = context.new_page()
        page.goto(url)
        expect(page.get_by_role("heading", name="Links", exact=True)).to_be_visible(timeout=30_000)
        people.clear()
        expect(page.get_by_text("The console cannot show this page now")).to_be_visible(timeout=30_000)


def test_an_open_page_tells_that_the_console_has_gone(chrome: Browser, sites: World):
    with closing(chrome.new_context(viewport=DESK)) as context:
        page = context.new_page()
        page.clock.install()
        with served(console.app(sites.engines)) as url:
            page.goto(url)
            expect(page.get_by_role("heading", name="Links", exact=True)).to_be_visible(timeout=30_000)
        page.clock.fast_forward("00:30")
        expect(page.get_by_text("The console does not answer; trying again")).to_be_visible(timeout=30_000)


@pytest.mark.nightly
def test_an_open_page_tells_that_its_only_site_does_not_answer(chrome: Browser, new_site):
    paris = new_site("paris")
    gate = threading.Event()
    gate.set()
    event.listen(paris.pool, "checkout", lambda *_: gate.wait(120))
    application = console.app([paris])
    try:
        with served(application) as url, closing(chrome.new_context(viewport=DESK)) as context:
            page = context.new_page()
            page.clock.install()
            page.goto(url)
            own = application.state.console
            eventually(lambda: own.changes.open and own.views()[0].status)
            gate.clear()
            eventually(lambda: own.views()[0].trouble)
            page.clock.fast_forward("00:30")
            expect(page.get_by_text("the database has not answered for").first).to_be_visible(timeout=30_000)
            gate.set()
    finally:
        gate.set()


def test_a_paused_page_holds_still_and_a_hidden_tab_holds_no_stream(show: Open, application):
    own = application.state.console.changes
    page = show("/")
    eventually(lambda: own.open == 1)
    pause = page.get_by_role("button", name="Pause")
    pause.click()
    eventually(lambda: own.open == 0)
    expect(page.get_by_role("button", name="Go on")).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name="Go on").click()
    eventually(lambda: own.open == 1)
    page.close()
    eventually(lambda: own.open == 0)


@pytest.mark.nightly
def test_fifty_tabs_share_one_watch_for_each_site_and_one_stream(show: Open, application, place: str):
    own = application.state.console
    page = show("/")
    tabs = [page.context.new_page() for _ in range(50)]
    for tab in tabs:
        tab.goto(place + "/", wait_until="commit")
    expect(tabs[-1].get_by_role("heading", name="Links", exact=True)).to_be_visible(timeout=30_000)
    eventually(lambda: own.changes.open == 1)
    watches = [thread.name for thread in threading.enumerate() if thread.name.startswith("console-watch-")]
    assert sorted(watches) == ["console-watch-lima", "console-watch-paris", "console-watch-tokyo"]
    for tab in tabs:
        tab.close()


def test_dead_letters_are_discarded_by_mouse_after_a_question(show: Open, sites: World):
    sites.poison()
    last = parked(sites.tokyo.engine)[-1].id
    page = show("/parked?site=tokyo")
    page.get_by_label(f"Choose {last}").check()
    page.get_by_role("button", name="Discard chosen").click()
    expect(page.get_by_role("heading", name="Discard 1 parked transaction")).to_be_visible()
    assert last in [each.id for each in parked(sites.tokyo.engine)]
    page.get_by_role("button", name="Discard for good").click()
    expect(page.get_by_role("status")).to_contain_text("discarded for good")
    assert last not in [each.id for each in parked(sites.tokyo.engine)]
    page.get_by_role("link", name="Actions").click()
    expect(page.get_by_role("cell", name=f"1 parked transaction ({last}) discarded for good")).to_be_visible()


def test_the_keyboard_reaches_and_uses_an_action(show: Open, sites: World):
    sites.poison()
    last = parked(sites.tokyo.engine)[-1].id
    page = show(f"/parked/one?site=tokyo&id={last}")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "discard":
            break
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid", "the focus is seen"
    page.keyboard.press("Enter")
    confirm = page.get_by_role("button", name="Discard for good")
    expect(confirm).to_be_visible()
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "confirm":
            break
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("discarded for good")
    assert last not in [each.id for each in parked(sites.tokyo.engine)]


def test_every_page_can_be_read_without_javascript(show: Open):
    page = show("/", java_script_enabled=False)
    expect(page.get_by_role("link", name="paris to tokyo")).to_be_visible()
    assert page.locator('noscript meta[http-equiv="refresh"]').count() == 1
    page.get_by_role("link", name="paris to tokyo").click()
    expect(page.get_by_role("heading", name="History")).to_be_visible()
    page.get_by_role("link", name="Entries", exact=True).click()
    page.get_by_label("acknowledged ones too").check()
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("rowheader").first).to_be_visible()


def test_an_action_works_without_javascript(show: Open, sites: World):
    sites.poison()
    last = parked(sites.tokyo.engine)[-1].id
    page = show(f"/parked/one?site=tokyo&id={last}", java_script_enabled=False)
    page.get_by_role("button", name="Discard").click()
    page.get_by_role("button", name="Discard for good").click()
    expect(page.get_by_role("status")).to_contain_text("discarded for good")


@pytest.mark.parametrize("path", [*PAGES, f"/entries?site=lima&queue={QUEUE}"])
def test_a_hostile_payload_and_error_stay_text(show: Open, path: str):
    page = show(path)
    assert page.title().endswith("· lrq console")
    assert page.locator("img").count() == 0
    assert page.locator("script:not([src])").count() == 0


def test_a_hostile_payload_is_shown_as_it_is(show: Open, sites: World):
    first = parked(sites.tokyo.engine)[0].id
    page = show(f"/parked/one?site=tokyo&id={first}")
    expect(page.get_by_role("region", name="text", exact=True)).to_contain_text(HOSTILE)


@pytest.fixture
def hostile_site(new_site) -> Iterator[str]:
    """Serve a site whose stored id, and whose peer's, are scripts."""
    engine = new_site("paris")
    with engine.begin() as connection:
        connection.execute(text("UPDATE lrq_site SET site_id = :name"), {"name": HOSTILE})
    application = console.app({HOSTILE: engine}, allow_actions=True)
    with served(application) as url:
        eventually(lambda: application.state.console.views()[0].status)
        yield url


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_a_hostile_site_name_stays_text(chrome: Browser, hostile_site: str):
    page = chrome.new_context().new_page()
    for path in ("/", "/entries", "/snapshots", "/parked", "/replays", "/actions"):
        page.goto(hostile_site + path)
        assert page.title().endswith("· lrq console")
        assert page.locator("img").count() == 0
        assert page.locator("script:not([src])").count() == 0
    page.goto(hostile_site)
    expect(page.get_by_role("listitem").first).to_contain_text("<script>document.title='owned'</script>")


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.nightly)])
def test_the_entry_that_blocks_a_queue_is_found_and_parked_by_mouse(chrome: Browser, new_site, scheme: str):
    def refuse(session, source_id, entries):
        raise ValueError(HOSTILE)

    engine = new_site("lima")
    Arrivals(engine).tick([HOSTILE.encode()], [b"e2"])
    with subscribe(engine, listener("policy")(refuse), poll_interval=0.02):
        eventually(lambda: blocked(engine))
    application = console.app({"lima": engine}, allow_actions=True)
    with served(application) as url:
        eventually(lambda: application.state.console.views()[0].status)
        page = chrome.new_context(color_scheme=scheme, viewport=PHONE).new_page()
        page.goto(f"{url}/parked?site=lima")
        page.get_by_role("link", name="refused").click()
        expect(page.get_by_role("region", name="Traceback of the error")).to_contain_text(
            "in test_the_entry_that_blocks"
        )
        expect(page.get_by_text("ValueError at test_browser.py")).to_be_visible()
        assert HOSTILE not in page.content()
        assert browser.violations(page) == []
        page.get_by_role("button", name="Park this entry now").click()
        expect(page.get_by_role("heading", name="Park the entry at 1 that blocks policy from tokyo")).to_be_visible()
        assert parked(engine) == []
        page.get_by_role("button", name="Park the entry").click()
        expect(page.get_by_role("status")).to_contain_text("the transaction at 1 of policy from tokyo is parked")
        assert [each.sequence for each in parked(engine)] == [1]
        page.goto(f"{url}/actions")
        expect(page.get_by_role("cell", name="park now")).to_be_visible()
        assert browser.violations(page) == []


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.nightly)])
def test_a_replay_is_ordered_and_withdrawn_by_mouse(chrome: Browser, new_site, scheme: str):
    engine = new_site("paris")
    apply_five(engine)
    application = console.app({"paris": engine}, allow_actions=True)
    with served(application) as url:
        eventually(lambda: application.state.console.views()[0].status)
        page = chrome.new_context(color_scheme=scheme, viewport=PHONE).new_page()
        page.goto(f"{url}/replays")
        page.get_by_role("link", name="policy from tokyo").click()
        page.get_by_label("The first entry that comes again").fill("4")
        page.get_by_label("do not call on_rollback").check()
        page.get_by_role("button", name="Order a replay").click()
        expect(page.get_by_role("heading", name="Apply entries from 4 on of policy from tokyo again")).to_be_visible()
        assert browser.violations(page) == []
        page.get_by_role("button", name="Order the replay").click()
        expect(page.get_by_role("status")).to_contain_text(
            "replay of policy from tokyo ordered: entries from 4 on, without on_rollback"
        )
        expect(page.get_by_text("tokyo has not answered yet")).to_be_visible(timeout=30_000)
        assert browser.violations(page) == []
        page.get_by_role("button", name="Cancel the order").click()
        expect(page.get_by_role("status")).to_contain_text("policy from tokyo: the order is withdrawn")
        expect(page.get_by_text("nothing has changed")).to_be_visible(timeout=30_000)
        page.goto(f"{url}/replays")
        expect(page.get_by_role("cell", name="nothing has changed")).to_be_visible()
        assert browser.violations(page) == []
        page.goto(f"{url}/actions")
        expect(page.get_by_role("cell", name="policy from tokyo: the order is withdrawn")).to_be_visible()


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_a_half_filled_form_stays_while_the_page_changes_by_itself(chrome: Browser, new_site):
    engine = new_site("paris")
    apply_five(engine)
    application = console.app({"paris": engine}, allow_actions=True)
    with served(application) as url:
        eventually(lambda: application.state.console.views()[0].status)
        page = chrome.new_context().new_page()
        page.goto(f"{url}/replay?site=paris&client=policy&source=tokyo")
        first = page.get_by_label("The first entry that comes again")
        first.fill("4")
        request_replay(engine, "policy", "tokyo", start=5)
        expect(page.get_by_text("tokyo has not answered yet")).to_be_visible(timeout=30_000)
        expect(first).to_have_value("4")
