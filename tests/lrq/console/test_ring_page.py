"""The page of a ring: its members with their states, also in a browser, and a member that is gone."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import Page
from starlette.applications import Starlette

from discovery.ring_status import RingStatus
from lrq import console
from lrq.cli.ring.members import MemberView
from lrq.console.links import Tone
from lrq.console.ring_watch import RingWatch, WatchedRing, member_tone
from tests.conftest import NewSite
from tests.lrq.console import browser, reading_aids
from tests.lrq.console.served import served
from tests.system.ring_servers import RANKS, RingServers
from tests.waiting import eventually


@pytest.fixture(params=["sqlite"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def ring(new_site: NewSite, tmp_path: Path) -> Iterator[RingServers]:
    made = RingServers(new_site, tmp_path)
    made.begin(*RANKS)
    with closing(made):
        yield made


def application(ring: RingServers) -> Starlette:
    return console.app({"paris": ring.engines[1]}, rings={"paris": ring.settings[1]})


def test_the_page_shows_the_members_and_the_one_that_is_gone(ring: RingServers, visit):
    visitor = visit(None, application=application(ring))

    def shown() -> list[int]:
        page = visitor.get("/ring")
        return [page.count(word) for word in ("leads generation", ">leading<", ">following<", "at ipc://")]

    # The first member leads once one other follows.
    eventually(lambda: (found := shown())[0] > 0 and found[1:] == [1, 2, 3], timeout=120)
    assert 'href="/ring"' in visitor.get("/")
    ring.close(2)
    eventually(lambda: "rank 2 does not answer" in visitor.get("/ring"), timeout=120)
    assert "does not answer" in visitor.get("/ring")


@pytest.mark.nightly
@pytest.mark.processes
@pytest.mark.timeout(300)
def test_a_browser_shows_the_ring_in_every_way(ring: RingServers):
    with served(application(ring)) as place, browser.started() as chrome:

        def show(**options: object) -> Page:
            page = chrome.new_context(**options).new_page()
            page.goto(f"{place}/ring")
            return page

        light = show(color_scheme="light")
        light.get_by_text("leads generation").wait_for(timeout=120_000)
        assert light.get_by_role("row").count() == 4
        reading_aids.assert_has_landmarks(light)
        assert browser.violations(light) == []
        dark = show(color_scheme="dark")
        assert reading_aids.brightness(dark) < 120
        assert browser.violations(dark) == []
        for scheme in ("light", "dark"):
            reading_aids.assert_fits_a_phone(show(viewport=reading_aids.PHONE, color_scheme=scheme))
        reading_aids.assert_keyboard_reaches_everything(show())
        plain = show(java_script_enabled=False)
        assert reading_aids.outline(plain) == reading_aids.outline(light)
        assert plain.locator('noscript meta[http-equiv="refresh"]').count() == 1


def test_a_console_without_a_ring_has_no_such_page(site, visit):
    visitor = visit({"paris": site})
    assert 'href="/ring"' not in visitor.get("/")


def members(*held: int) -> Sequence[MemberView]:
    leader = RingStatus(0, "leading", generation=2, leader=0, newest=9, released=9, held=held)
    follower = RingStatus(1, "following", generation=2, leader=0, newest=8)
    return MemberView(0, "tcp://a:1", leader), MemberView(1, "tcp://b:1", follower), MemberView(2, "tcp://c:1", None)


def test_the_leader_tells_which_ticks_a_follower_lacks():
    ring = WatchedRing("paris", tuple(members(9, 8, 4)))
    assert [ring.lacking(rank) for rank in RANKS] == [None, 1, 5]
    assert WatchedRing("paris").lacking(1) is None


@pytest.mark.parametrize(
    ("status", "tone"),
    [
        (None, Tone.BAD),
        (RingStatus(0, "leading", leader=0), Tone.GOOD),
        (RingStatus(1, "following", leader=0), Tone.BUSY),
        (RingStatus(1, "following"), Tone.WARN),
        (RingStatus(1, "following", leader=0, alarm="the disk is full"), Tone.BAD),
    ],
)
def test_each_state_has_its_colour(status: RingStatus | None, tone: Tone):
    assert member_tone(MemberView(0, "tcp://a:1", status)) is tone


def test_an_error_of_the_settings_stands_beside_the_last_states():
    answers = iter([list(members(9, 9, 9))])
    watch = RingWatch("paris", lambda: next(answers, None) or _fail())
    watch.repeated.read()
    watch.repeated.read()
    view = watch.look()
    assert len(view.members) == 3
    assert view.trouble == "ValueError: no certificate"


def _fail() -> Sequence[MemberView]:
    raise ValueError("no certificate")
