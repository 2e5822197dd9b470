"""`lrq drain`: waits until the sessions have acknowledged all entries, or names the laggards."""

import threading

import pytest

from lrq.cli.waits.drain import Scope, drain
from queues.database.transactions import writing
from queues.names import ClientName, SiteId
from queues.send_log.links import set_wish
from queues.send_log.port import SessionKey, TickLimits
from queues.send_log.replica_members import store_groups
from queues.states import LinkWish
from tests.lrq.cli.command import Command
from tests.lrq.cli.source import SourceSite
from tests.waiting import eventually


@pytest.fixture
def drained(lrq: Command, source: SourceSite):
    """Give a function that runs `lrq drain` on the site with a timeout of 0."""
    return lambda *arguments: lrq("drain", "--database", source.url, "--timeout", "0", *arguments)


def test_an_empty_site_is_drained(drained):
    done = drained()
    assert (done.code, done.out) == (0, "drained: there is nothing to replicate\n")


def test_a_group_of_replicas_is_drained_once_all_members_are(drained, source: SourceSite):
    source.transmit(b"x", to=["tokyo-a", "tokyo-b"])
    end = source.tick()
    source.session("tokyo-a", end)
    source.session("tokyo-b", 0, state="backing off", reason="no answer")
    with writing(source.engine) as connection:
        store_groups(connection, {SiteId("tokyo"): (SiteId("tokyo-a"), SiteId("tokyo-b"))})
    behind = drained("--destination", "tokyo")
    assert behind.code == 3
    assert behind.error.endswith("policy to tokyo-b has 0 of 1 (backing off, no answer)")
    # The other member is drained, however long the first one is away.
    assert drained("--destination", "tokyo-a").out.startswith("drained: 1 session up to 1")


def test_a_site_is_drained_when_every_session_has_every_entry(drained, source: SourceSite):
    source.transmit(b"x", to=["tokyo", "lima"])
    end = source.tick()
    source.session("tokyo", end)
    source.session("lima", end)
    facts = drained("--json").json
    assert (facts["drained"], facts["seq"], facts["sessions"], facts["laggards"]) == (True, 1, 2, [])
    assert "drained: 2 sessions up to 1" in drained().out


def test_a_lagging_session_is_named(drained, source: SourceSite):
    source.transmit(b"x", to=["tokyo", "lima"])
    source.session("tokyo", source.tick())
    source.session("lima", 0, state="backing off", reason="no answer")
    done = drained()
    assert (done.code, done.out) == (3, "")
    assert done.error == "not drained after 0 s: policy to lima has 0 of 1 (backing off, no answer)"
    facts = drained("--json").json
    assert facts["drained"] is False
    assert facts["laggards"] == [
        {
            "client": "policy",
            "destination": "lima",
            "state": "backing off",
            "reason": "no answer",
            "acked_seq": 0,
            "applied_seq": None,
        }
    ]


def test_applied_entries_are_waited_for_if_that_is_wanted(drained, source: SourceSite):
    source.transmit(b"x", to=["tokyo", "lima"])
    end = source.tick()
    source.session("tokyo", end, applied=end)
    source.session("lima", end, applied=0)
    assert drained().code == 0
    done = drained("--applied")
    assert (done.code, done.error) == (
        3,
        "not drained after 0 s: policy to lima has applied 0 of 1 (log-entry sync, live)",
    )
    assert drained("--applied", "--json").json["laggards"][0]["applied_seq"] == 0
    source.session("lima", end)
    assert drained("--applied").code == 3, "the sink has not told yet"
    source.session("lima", end, applied=end)
    assert drained("--applied").out.startswith("drained: 2 sessions up to 1")


@pytest.mark.parametrize("word", ["inactive", "left out"])
def test_an_inactive_session_is_not_waited_for(drained, source: SourceSite, word: str):
    source.transmit(b"x", to=["tokyo", "lima"])
    source.session("tokyo", source.tick())
    source.session("lima", 0, state=word, reason="gone")
    assert drained().code == 0


def test_a_session_in_snapshot_sync_is_not_drained(drained, source: SourceSite):
    source.transmit(b"x", to=["tokyo"])
    source.session("tokyo", source.tick(), state="snapshot sync", reason="")
    assert drained().code == 3


def test_entries_in_no_tick_are_not_drained(drained, source: SourceSite):
    source.transmit(b"x", to=["tokyo"])
    source.session("tokyo", source.tick())
    source.transmit(b"y", to=["tokyo"])
    done = drained()
    assert done.code == 3
    assert "some committed entries are in no tick yet" in done.error


def test_a_backlog_with_an_unacknowledged_tick_is_not_drained(drained, source: SourceSite):
    for _ in range(3):
        source.transmit(b"x", to=["tokyo"])
    end = source.tick(TickLimits(rows=1))
    source.session("tokyo", end - 1)
    assert drained().code == 3
    source.session("tokyo", end)
    assert drained().code == 0


def test_a_missing_server_is_named(lrq: Command, drained, source: SourceSite):
    source.transmit(b"x", to=["tokyo"])
    done = drained()
    assert done.code == 3
    assert "no server works for this site, run `lrq serve`" in done.error
    assert "there is no session to any site" in done.error


def test_destination_limits_drain_to_one_site(drained, source: SourceSite):
    source.transmit(b"x", to=["tokyo", "lima"])
    source.session("tokyo", source.tick())
    source.session("lima", 0)
    assert drained("--destination", "tokyo").code == 0
    assert drained("--destination", "lima").code == 3
    missing = drained("--destination", "oslo")
    assert missing.code == 3
    assert "there is no session to oslo" in missing.error


def test_drain_ignores_entries_committed_after_its_start(source: SourceSite):
    source.transmit(b"x", to=["tokyo"])
    looks = []

    class Clock:
        """Writes an entry at each pause of drain; at the first, acknowledges the entries from before it."""

        def monotonic(self) -> float:
            return float(len(looks))

        def wait(self, event: threading.Event, timeout: float) -> bool:
            looks.append(timeout)
            if len(looks) == 1:
                source.session("tokyo", source.tick())
            source.transmit(b"later", to=["tokyo"])
            return False

    assert drain(source.engine, Scope(), 5, clock=Clock()).drained
    assert looks


def test_drain_returns_as_soon_as_all_entries_are_acknowledged(source: SourceSite):
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


@pytest.mark.parametrize("scope", [(), ("--destination", "tokyo")])
def test_a_site_whose_only_link_has_ended_is_drained(drained, source: SourceSite, scope: tuple[str, ...]):
    source.transmit(b"x", to=["tokyo"])
    end = source.tick()
    assert drained(*scope).code == 3
    source.session("tokyo", end, state="finished")
    with writing(source.engine) as connection:
        set_wish(connection, [SessionKey(ClientName("policy"), SiteId("tokyo"))], LinkWish.ENDED)
    done = drained(*scope)
    assert (done.code, done.out) == (0, "drained: every link has ended\n")
