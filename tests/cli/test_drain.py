"""`lrq drain`."""

import threading

import pytest

from lrq_cli import draining
from lrq_cli.draining import Scope, drain
from queues.log.port import Limits
from tests.cli.command import Command
from tests.cli.source import SourceSite
from tests.waiting import eventually


@pytest.fixture
def drained(lrq: Command, source: SourceSite):
    """Give a function that drains the site, or does not wait for it."""
    return lambda *arguments: lrq("drain", "--database", source.url, "--timeout", "0", *arguments)


def test_a_site_that_has_nothing_is_drained(drained):
    done = drained()
    assert (done.code, done.out) == (0, "drained: there is nothing to replicate\n")


def test_everyone_has_everything(drained, source: SourceSite):
    source.transmit(b"x", to=["tokyo", "lima"])
    end = source.tick()
    source.session("tokyo", end)
    source.session("lima", end)
    facts = drained("--json").json
    assert (facts["drained"], facts["seq"], facts["sessions"], facts["laggards"]) == (True, 1, 2, [])
    assert "drained: 2 sessions up to 1" in drained().out


def test_who_lags_is_named(drained, source: SourceSite):
    source.transmit(b"x", to=["tokyo", "lima"])
    source.session("tokyo", source.tick())
    source.session("lima", 0, state="backing off", reason="no answer")
    done = drained()
    assert (done.code, done.out) == (3, "")
    assert done.error == "not drained after 0 s: policy to lima has 0 of 1 (backing off, no answer)"
    facts = drained("--json").json
    assert facts["drained"] is False
    assert [lag["destination"] for lag in facts["laggards"]] == ["lima"]


def test_a_session_before_the_log_is_not_drained(drained, source: SourceSite):
    source.transmit(b"x", to=["tokyo"])
    source.session("tokyo", source.tick(), state="snapshot sync", reason="")
    assert drained().code == 3


def test_what_is_in_no_tick_yet_is_not_drained(drained, source: SourceSite):
    source.transmit(b"x", to=["tokyo"])
    source.session("tokyo", source.tick())
    source.transmit(b"y", to=["tokyo"])
    done = drained()
    assert done.code == 3
    assert "entries are committed that no tick holds yet" in done.error


def test_a_backlog_that_is_closed_in_part_only_is_not_drained(drained, source: SourceSite):
    for _ in range(3):
        source.transmit(b"x", to=["tokyo"])
    end = source.tick(Limits(rows=1))
    source.session("tokyo", end - 1)
    assert drained().code == 3
    source.session("tokyo", end)
    assert drained().code == 0


def test_a_site_without_a_server_is_told(lrq: Command, drained, source: SourceSite):
    source.transmit(b"x", to=["tokyo"])
    done = drained()
    assert done.code == 3
    assert "no server works for this site, run `lrq serve`" in done.error
    assert "there is no session to any site" in done.error


def test_it_may_be_about_some_sites_only(drained, source: SourceSite):
    source.transmit(b"x", to=["tokyo", "lima"])
    source.session("tokyo", source.tick())
    source.session("lima", 0)
    assert drained("--destination", "tokyo").code == 0
    assert drained("--destination", "lima").code == 3
    missing = drained("--destination", "oslo")
    assert missing.code == 3
    assert "there is no session to oslo" in missing.error


def test_what_is_committed_later_is_not_waited_for(source: SourceSite, monkeypatch: pytest.MonkeyPatch):
    source.transmit(b"x", to=["tokyo"])
    looks = []

    class Clock:
        """Lets more be written whenever drain pauses, and acknowledges what there was at its beginning."""

        def monotonic(self) -> float:
            return float(len(looks))

        def wait(self, event: threading.Event, timeout: float) -> bool:
            looks.append(timeout)
            if len(looks) == 1:
                source.session("tokyo", source.tick())
            source.transmit(b"later", to=["tokyo"])
            return False

    monkeypatch.setattr(draining, "SYSTEM_CLOCK", Clock())
    assert drain(source.engine, Scope(), 5).drained
    assert looks


def test_it_returns_as_soon_as_all_is_acknowledged(source: SourceSite):
    source.transmit(b"x", to=["tokyo"])
    end = source.tick()
    source.session("tokyo", 0)
    outcomes = []
    waiting = threading.Thread(target=lambda: outcomes.append(drain(source.engine, Scope(), 30)))
    waiting.start()
    source.session("tokyo", end)
    eventually(lambda: outcomes)
    waiting.join()
    assert outcomes[0].drained
