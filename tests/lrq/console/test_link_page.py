"""The page of a link in a real browser, with real servers: rates, the history of negotiations, and the plot."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser, Locator, Page, expect
from sqlalchemy import Engine

from lr_client import RoutingQueueSenderClient
from lr_server import LogReplicationServer, Settings
from lrq import console
from lrq.testing.sites import QUICK
from queues.states import SessionState
from tests.lrq.console import browser
from tests.lrq.console.served import served
from tests.waiting import eventually

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]

PAGE = "/link?site=paris&client=policy&to=tokyo"
#: Milliseconds until the page shows a fact; the console reads each site every two seconds or less often.
PATIENCE = 60_000


@pytest.fixture(scope="module")
def chrome() -> Iterator[Browser]:
    with browser.started() as made:
        yield made


class Sites:
    """Paris sends to Tokyo; the server of Tokyo can be stopped and started."""

    def __init__(self, paris: Engine, tokyo: Engine, stack: ExitStack) -> None:
        self.paris, self.tokyo = paris, tokyo
        self._stack = stack
        self._client = RoutingQueueSenderClient("policy")

    def start(self, engine: Engine, site_id: str, **settings: object) -> LogReplicationServer:
        url = engine.url.render_as_string(hide_password=False)
        given = {"site_id": site_id, "database_url": url, "listen": (), **QUICK, **settings}
        return self._stack.enter_context(LogReplicationServer(Settings(**given)))

    def start_tokyo(self) -> LogReplicationServer:
        return self.start(self.tokyo, "tokyo")

    def send(self, payload: bytes) -> None:
        with self.paris.begin() as connection:
            self._client.transmit_log_entry_message(connection, payload, ["tokyo"])


@pytest.fixture
def sites(new_site: Callable[[str], Engine]) -> Iterator[Sites]:
    with ExitStack() as stack:
        made = Sites(new_site("paris"), new_site("tokyo"), stack)
        made.start(made.paris, "paris", peers={"tokyo": "local:tokyo"})
        yield made


@pytest.fixture
def show(chrome: Browser, sites: Sites) -> Iterator[Callable[[], Page]]:
    with ExitStack() as stack:

        def go() -> Page:
            application = console.app({"paris": sites.paris, "tokyo": sites.tokyo})
            url = stack.enter_context(served(application))
            eventually(lambda: application.state.console.links())
            context = chrome.new_context()
            stack.callback(context.close)
            page = context.new_page()
            page.goto(url + PAGE)
            return page

        yield go


def tile(page: Page, name: str) -> Locator:
    """Return the figure with the line below it."""
    return page.locator(".tile").filter(has=page.locator(".k", has_text=name))


def history(page: Page) -> Locator:
    """Return the changes, newest first."""
    return page.get_by_role("region", name="History").get_by_role("listitem")


@pytest.mark.nightly
@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_the_rates_of_a_link_rise_while_entries_flow_and_fall_to_zero_afterwards(
    show: Callable[[], Page], sites: Sites
):
    sites.start_tokyo()
    sites.send(b"first")
    page = show()
    figure = tile(page, "Rate")

    def flows() -> bool:
        sites.send(b"more")
        acknowledged = figure.locator(".v").inner_text()
        grown = figure.locator(".s").inner_text().removeprefix("log grows by ")
        return all(text.endswith("/s") and text != "0/s" for text in (acknowledged, grown))

    eventually(flows, timeout=60)
    expect(figure.locator(".v")).to_have_text("0/s", timeout=PATIENCE)
    expect(figure.locator(".s")).to_have_text("log grows by 0/s", timeout=PATIENCE)


@pytest.mark.nightly
@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_the_history_of_a_link_shows_each_negotiation_newest_first(show: Callable[[], Page], sites: Sites):
    tokyo = sites.start_tokyo()
    sites.send(b"first")
    page = show()
    flows, waits = SessionState.LOG_ENTRY_SYNC.value, SessionState.BACKING_OFF.value
    expect(history(page).first).to_contain_text(flows, timeout=PATIENCE)
    tokyo.stop()
    lost = history(page).filter(has_text=waits)
    expect(lost.first).to_contain_text("tokyo", timeout=PATIENCE)
    expect(page.locator(".title")).to_contain_text(waits, timeout=PATIENCE)
    sites.start_tokyo()
    expect(history(page).first).to_contain_text(flows, timeout=PATIENCE)
    expect(page.locator(".title")).to_contain_text(flows)
    states = history(page).locator("strong").all_inner_texts()
    assert states[0] == flows
    assert flows in states[states.index(waits) :], "the negotiation before the loss is there too"
    assert browser.violations(page) == []


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_the_plot_and_the_positions_follow_the_entries_that_are_not_applied(show: Callable[[], Page], sites: Sites):
    sites.start_tokyo()
    sites.send(b"first")
    page = show()
    stored = page.locator("dt", has_text="Stored there, not applied").locator("xpath=following-sibling::dd")
    expect(stored).to_have_text("1", timeout=PATIENCE)
    sites.send(b"second")
    expect(stored).to_have_text("2", timeout=PATIENCE)
    expect(page.get_by_role("img", name="Highest lag of the last hour")).to_be_visible()
    durable = page.locator("dt", has_text="Durable at the sink").locator("xpath=following-sibling::dd")
    end = page.locator("dt", has_text="End of the source's log").locator("xpath=following-sibling::dd")
    expect(durable).to_have_text("2", timeout=PATIENCE)
    expect(end).to_have_text("2", timeout=PATIENCE)
