"""`lrq status`."""

import pytest
from sqlalchemy import insert, update

from lr_server.session import Standing
from lr_server.session_table import save
from lr_server.states import Words
from lr_server.status import read_status
from queues import leases, snapshots
from queues.browse.entries import COUNTED
from queues.clock import now_us
from queues.log.port import Owed
from queues.names import ClientName, SiteId
from queues.positions import ORIGIN
from queues.tables import consumer_failures, sessions, ticks
from queues.transactions import writing
from tests.cli.command import Command
from tests.cli.source import SourceSite
from tests.subscriber.arrivals import Arrivals


@pytest.fixture
def status(lrq: Command, source: SourceSite):
    """Give a function that asks for the site's status."""
    return lambda *arguments: lrq("status", "--database", source.url, *arguments)


def behind(source: SourceSite, state: str, *, seconds: float, quiet: float) -> None:
    """Let a session owe an entry for some time, and be quiet for some time."""
    source.transmit(b"x", to=["tokyo"])
    source.tick()
    source.session("tokyo", 0, state=state, reason="why not")
    with writing(source.engine) as connection:
        connection.execute(update(ticks).values(created_us=now_us() - int(seconds * 1e6)))
        connection.execute(update(sessions).values(updated_us=now_us() - int(quiet * 1e6)))


def test_a_new_site_is_well(status):
    done = status()
    assert (done.code, done.err) == (0, "")
    assert "all is well" in done.out
    assert "none has worked for this site yet" in done.out


def test_json_is_what_the_server_tells(status, source: SourceSite):
    source.transmit(b"x", to=["tokyo"])
    source.session("tokyo", source.tick())
    facts, expected = status("--json").json, read_status(source.engine)
    assert facts | {"at": ""} == expected | {"at": ""}
    assert facts["sessions"][0]["acked_seq"] == 1


def test_everything_that_there_is_is_shown(status, source: SourceSite):
    source.transmit(b"x", to=["tokyo"])
    source.session("tokyo", source.tick())
    with writing(source.engine) as connection:
        snapshots.request(connection, ClientName("policy"), ["lima"], "somebody wants it")
    Arrivals(source.engine, source="oslo").tick([b"a"])
    shown = status().out
    for words in ("paris", "policy", "tokyo", "log-entry sync", "lima", "somebody wants it", "LRQ_Recv_policy_oslo"):
        assert words in shown


def test_a_long_backlog_of_a_subscriber_is_counted_up_to_a_limit(status, source: SourceSite):
    arrivals = Arrivals(source.engine, source="oslo")
    arrivals.tick([b""] * COUNTED)
    (queue,) = status("--json").json["receive_queues"]
    assert (queue["outstanding"], queue["more"]) == (COUNTED, False)
    arrivals.tick([b""])
    (queue,) = status("--json").json["receive_queues"]
    assert (queue["outstanding"], queue["more"]) == (COUNTED, True)
    assert queue["oldest_seconds"] > 0
    assert "10,000+" in status().out


@pytest.mark.parametrize("width", [80, 100, 140])
def test_no_line_is_wider_than_the_terminal(status, source: SourceSite, monkeypatch: pytest.MonkeyPatch, width: int):
    monkeypatch.setenv("COLUMNS", str(width))
    behind(source, "backing off", seconds=90, quiet=1)
    source.session("lima", 0, state="failed", reason="a long story " * 30)
    assert max(len(line) for line in status().out.splitlines()) <= width


@pytest.mark.parametrize(("state", "quiet"), [("log-entry sync", 70), ("backing off", 1), ("negotiating", 1)])
def test_a_session_that_owes_something_and_does_not_get_on_is_stalled(status, source, state: str, quiet: float):
    behind(source, state, seconds=90, quiet=quiet)
    done = status()
    assert done.code == 3
    assert "STALLED" in done.out
    assert f"policy to tokyo is stalled with 1 entry, the oldest for 1m 30s ({state}, why not)" in done.out
    assert status("--json").code == 3


@pytest.mark.parametrize(
    ("state", "seconds", "quiet"),
    [("log-entry sync", 90, 1), ("snapshot sync", 90, 1), ("backing off", 30, 1), ("log-entry sync", 30, 30)],
)
def test_a_session_that_gets_on_or_tries_again_is_not_stalled(status, source, state: str, seconds: float, quiet: float):
    behind(source, state, seconds=seconds, quiet=quiet)
    done = status()
    assert (done.code, "STALLED" in done.out) == (0, False)


def test_a_session_that_has_failed_is_trouble(status, source: SourceSite):
    source.session("tokyo", state="failed", reason="another site answers")
    done = status()
    assert done.code == 3
    assert "policy to tokyo has failed: another site answers" in done.out


def test_a_session_that_is_on_its_way_is_remarked(status, source: SourceSite):
    source.session("tokyo", state="snapshot sync", reason="waiting for the provider")
    done = status()
    assert done.code == 0
    assert "• policy to tokyo: snapshot sync, waiting for the provider" in done.out


def test_entries_without_a_server_are_trouble(status, source: SourceSite):
    source.transmit(b"x", to=["tokyo"])
    done = status()
    assert done.code == 3
    assert "no server works for this site, though it owes entries: run `lrq serve`" in done.out
    assert "1 in no tick yet" in done.out
    leases.acquire(source.engine, "server", "me", 60)
    assert status().code == 0


def test_a_snapshot_that_has_failed_is_trouble(status, source: SourceSite):
    with writing(source.engine) as connection:
        (sync_id,) = snapshots.request(connection, ClientName("policy"), ["tokyo"], "somebody wants it")
        snapshots.mark_failed(connection, sync_id, "no room on the disk")
    done = status()
    assert done.code == 3
    assert "the snapshot of policy for tokyo has failed: no room on the disk" in done.out
    with writing(source.engine) as connection:
        snapshots.request(connection, ClientName("policy"), ["tokyo"], "again")
    assert status().code == 0


def test_a_listener_that_refuses_is_trouble(status, source: SourceSite):
    arrivals = Arrivals(source.engine)
    arrivals.tick([b"x"])
    with writing(source.engine) as connection:
        failure = {"queue_id": arrivals.queue_id(connection), "seq": 1, "tries": 4, "error": "ValueError: no"}
        connection.execute(insert(consumer_failures).values(updated_us=now_us(), **failure))
    done = status()
    assert done.code == 3
    assert "LRQ_Recv_policy_tokyo does not get on, refused 4 times: ValueError: no" in done.out


def test_a_transfer_shows_its_progress_so_that_it_does_not_look_stalled(status, source: SourceSite):
    behind(source, "snapshot sync", seconds=90, quiet=90)
    assert status().code == 3
    words = Words("snapshot sync", "transferring snapshot 1")
    owed = Owed(ClientName("policy"), SiteId("tokyo"))
    lease = leases.acquire(source.engine, "server", "test", ttl=60)
    assert lease is not None
    save(source.engine, lease, [(owed, Standing(words, ORIGIN, 0, transferred_rows=12_000))])
    done = status()
    assert (done.code, "transferring snapshot 1 (12,000 rows sent)" in done.out) == (0, True)


def test_what_a_peer_says_cannot_move_the_cursor(status, source: SourceSite):
    source.session("tokyo", state="failed", reason="\x1b[2Jnot\nwell [bold]at all[/bold]")
    shown = status().out
    assert "\x1b[2J" not in shown
    assert "[bold]at all[/bold]" in shown
