"""`lrq status`: shows a site, and exits with 3 if there is trouble."""

import re

import pytest
from sqlalchemy import insert, update

from discovery.status import read_status
from lr_server.protocol.states import SessionStanding, StatusText
from lr_server.session.table import Standing, save
from queues import send_snapshot
from queues.clock import now_us
from queues.counts import COUNTED
from queues.database import leases
from queues.database.tables.consumers import consumer_failures
from queues.database.tables.servers import leases as table_of_leases
from queues.database.tables.sessions import sessions
from queues.database.tables.snapshots import snapshots
from queues.database.transactions import writing
from queues.names import ClientName, SiteId
from queues.positions import ORIGIN
from queues.send_log.port import SessionKey
from queues.states import SessionState
from tests.leading import lead
from tests.lr_client.subscriber.arrivals import Arrivals
from tests.lrq.cli.command import Command
from tests.lrq.cli.source import SourceSite


@pytest.fixture
def status(lrq: Command, source: SourceSite):
    """Give a function that runs `lrq status` on the site."""
    return lambda *arguments: lrq("status", "--database", source.url, *arguments)


def behind(source: SourceSite, state: str, *, seconds: float, quiet: float) -> None:
    """Let a session owe an entry since *seconds*, with its last change *quiet* seconds ago."""
    source.transmit(b"x", to=["tokyo"])
    source.tick()
    source.session("tokyo", 0, state=state, reason="why not")
    source.age(seconds)
    with writing(source.engine) as connection:
        connection.execute(update(sessions).values(updated_us=now_us() - int(quiet * 1e6)))


def test_a_new_site_without_a_server_is_not_called_well(status, source: SourceSite):
    done = status()
    assert (done.code, done.err) == (0, "")
    assert "all is well" not in done.out
    assert "○ no server works for this site: run `lrq serve`" in done.out
    assert "none has worked for this site yet" in done.out
    leases.acquire(source.engine, "server", "me", 60)
    assert "✓ all is well" in status().out


def test_a_site_whose_server_is_gone_is_not_called_well(status, source: SourceSite):
    lease = leases.acquire(source.engine, "server", "me", 60)
    assert lease is not None
    leases.release(source.engine, lease)
    done = status()
    assert (done.code, "all is well" in done.out) == (0, False)
    assert "○ no server works for this site: run `lrq serve`" in done.out


def test_a_server_that_is_gone_without_a_stop_is_trouble(status, source: SourceSite):
    leases.acquire(source.engine, "server", "me", 60)
    with writing(source.engine) as connection:
        connection.execute(update(table_of_leases).values(expires_us=now_us() - 90_000_000))
    done = status()
    assert done.code == 3
    assert "the last server was gone without a stop 1m 30s ago: run `lrq serve`" in done.out
    assert status("--json").json["owners"][0]["lapsed_at"]


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_a_full_disk_of_a_sqlite_file_is_trouble(status, monkeypatch: pytest.MonkeyPatch):
    assert status().code == 0
    monkeypatch.setattr("lrq.cli.doctor.sqlite_file.TOO_LITTLE", 2**62)
    monkeypatch.setattr("lrq.cli.doctor.sqlite_file.LITTLE", 2**62)
    done, facts = status(), status("--json")
    assert (done.code, facts.code, facts.json["site"]) == (3, 3, "paris")
    assert "✗ 1 trouble" in done.out
    assert re.search(r"has room for .* only: free some space", done.out)
    assert "only: free some space" in facts.warnings[0]
    assert facts.json["troubles"] == facts.warnings


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_a_full_disk_of_a_sqlite_file_may_keep_a_server_from_its_lease(
    status, source: SourceSite, monkeypatch: pytest.MonkeyPatch
):
    source.transmit(b"x", to=["tokyo"])
    for limit in ("TOO_LITTLE", "LITTLE"):
        monkeypatch.setattr(f"lrq.cli.doctor.sqlite_file.{limit}", 2**62)
    assert "entries, or has the room to tell so: free some space first" in " ".join(status().out.split())
    assert "entries, or has the room to tell so: free some space first" in status("--json").json["troubles"][1]


def test_json_equals_the_status_of_the_server(status, source: SourceSite):
    source.transmit(b"x", to=["tokyo"])
    source.session("tokyo", source.tick())
    done, expected = status("--json"), read_status(source.engine).as_json()
    facts = done.json
    assert facts | {"at": ""} == expected | {"at": "", "troubles": []}
    assert facts["sessions"][0]["acked_seq"] == 1


def test_status_shows_sessions_snapshots_and_receive_queues(status, source: SourceSite):
    source.transmit(b"x", to=["tokyo"])
    source.session("tokyo", source.tick())
    with writing(source.engine) as connection:
        send_snapshot.request(connection, ClientName("policy"), ["lima"], "somebody wants it")
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
def test_a_session_that_owes_entries_without_progress_is_stalled(status, source, state: str, quiet: float):
    behind(source, state, seconds=90, quiet=quiet)
    done = status()
    assert done.code == 3
    assert "STALLED" in done.out
    said = rf"policy to tokyo is stalled with 1 entry, the oldest for 1m 3\ds \({state}, why not\)"
    assert re.search(said, done.out)
    assert status("--json").code == 3


@pytest.mark.parametrize(
    ("state", "seconds", "quiet"),
    [("log-entry sync", 90, 1), ("snapshot sync", 90, 1), ("backing off", 30, 1), ("log-entry sync", 30, 30)],
)
def test_a_session_with_progress_or_recent_retries_is_not_stalled(
    status, source, state: str, seconds: float, quiet: float
):
    behind(source, state, seconds=seconds, quiet=quiet)
    done = status()
    assert (done.code, "STALLED" in done.out) == (0, False)


def test_entries_that_the_destination_has_not_applied_are_trouble(status, source: SourceSite):
    source.transmit(b"x", b"y", to=["tokyo"])
    source.session("tokyo", source.tick(), applied=0)
    assert status().code == 0
    source.age(79_200)
    done = status()
    assert done.code == 3
    assert "not applied: 2, oldest 22h 00m" in done.out
    assert "tokyo has not applied 2 entries of policy, the oldest for 22h 00m" in done.out


def test_a_session_without_a_reason_begins_its_notes_with_the_first_one(status, source: SourceSite):
    source.transmit(b"x", to=["tokyo"])
    end = source.tick()
    source.session("tokyo", end, applied=0, reason="")
    assert re.search(r"[^·] not applied: 1\b", status().out)
    source.session("tokyo", end, applied=0, reason="live")
    assert "live · not applied: 1" in status().out


def test_a_failed_session_is_trouble(status, source: SourceSite):
    source.session("tokyo", state="failed", reason="another site answers")
    done = status()
    assert done.code == 3
    assert "policy to tokyo has failed: another site answers" in done.out


def test_a_session_in_snapshot_sync_is_a_remark(status, source: SourceSite):
    source.session("tokyo", state="snapshot sync", reason="waiting for the provider")
    done = status()
    assert done.code == 0
    assert "○ 1 remark\n  • policy to tokyo: snapshot sync, waiting for the provider" in done.out


def test_troubles_and_remarks_are_told_apart_without_colours(status, source: SourceSite):
    source.session("tokyo", state="snapshot sync", reason="waiting for the provider")
    source.session("lima", state="failed", reason="another site answers")
    done = status()
    assert done.code == 3
    last = done.out.splitlines()[-4:]
    assert [line[:3].strip() for line in last] == ["✗ 1", "•", "○ 1", "•"]
    assert ["lima" in last[1], "tokyo" in last[3]] == [True, True]


@pytest.mark.parametrize("word", ["inactive", "left out"])
def test_an_inactive_session_is_neither_a_trouble_nor_a_remark(status, source: SourceSite, word: str):
    behind(source, word, seconds=90, quiet=90)
    done = status()
    assert (done.code, "● inactive" in done.out, "• policy to tokyo" in done.out) == (0, True, False)


def test_entries_without_a_server_are_trouble(status, source: SourceSite):
    source.transmit(b"x", to=["tokyo"])
    done = status()
    assert done.code == 3
    assert "no server works for this site, though it owes entries: run `lrq serve`" in done.out
    assert "1 in no tick yet" in done.out
    assert status("--json").json["troubles"][0].startswith("no server works for this site, though it owes entries")
    leases.acquire(source.engine, "server", "me", 60)
    assert status().code == 0


def test_a_failed_snapshot_is_trouble_until_a_newer_request(status, source: SourceSite):
    with writing(source.engine) as connection:
        (sync_id,) = send_snapshot.request(connection, ClientName("policy"), ["tokyo"], "somebody wants it")
        failed = {"state": "failed", "error": "no room on the disk"}
        connection.execute(update(snapshots).where(snapshots.c.sync_id == sync_id).values(failed))
    done = status()
    assert done.code == 3
    assert "the snapshot of policy for tokyo has failed: no room on the disk" in done.out
    with writing(source.engine) as connection:
        send_snapshot.request(connection, ClientName("policy"), ["tokyo"], "again")
    assert status().code == 0


def test_a_failing_listener_is_trouble_and_its_message_is_hidden(status, lrq: Command, source: SourceSite):
    arrivals = Arrivals(source.engine)
    arrivals.tick([b"x"])
    with writing(source.engine) as connection:
        failure = {"queue_id": arrivals.queue_id(connection), "seq": 1, "tries": 4, "error": "ValueError: a payload"}
        failure |= {"error_class": "ValueError", "place": "shop.py, line 7, in apply"}
        connection.execute(insert(consumer_failures).values(updated_us=now_us(), **failure))
    done = status()
    assert done.code == 3
    assert "LRQ_Recv_policy_tokyo is blocked, refused 4 times: ValueError (shop.py, line 7, in apply)" in done.out
    for output in (done.out, status("--json").out, lrq("top", "--once", "--database", source.url).out):
        assert "ValueError (shop.py, line 7, in apply)" in " ".join(output.split())
        assert "a payload" not in output


def test_a_sentence_of_lrq_about_a_listener_is_shown(status, source: SourceSite):
    arrivals = Arrivals(source.engine)
    arrivals.tick([b"x"])
    said = "ListenerError: the listener has no on_rollback"
    with writing(source.engine) as connection:
        failure = {"queue_id": arrivals.queue_id(connection), "seq": 1, "tries": 4, "error": said}
        failure |= {"error_class": "ListenerError", "place": "delivery.py, line 7, in _undo"}
        connection.execute(insert(consumer_failures).values(updated_us=now_us(), **failure))
    assert f"LRQ_Recv_policy_tokyo is blocked, refused 4 times: {said}" in status().out


def test_a_transfer_shows_its_progress_and_is_not_stalled(status, source: SourceSite):
    behind(source, "snapshot sync", seconds=90, quiet=90)
    assert status().code == 3
    words = StatusText(SessionState.SNAPSHOT_SYNC, "transferring snapshot 1")
    owed = SessionKey(ClientName("policy"), SiteId("tokyo"))
    (led,) = lead(source.engine)
    save(source.engine, [Standing(owed, led, SessionStanding(words, ORIGIN, 0, transferred_rows=12_000))])
    done = status()
    assert (done.code, "transferring snapshot 1 (12,000 rows sent)" in done.out) == (0, True)


def test_the_reason_of_a_session_cannot_move_the_cursor(status, source: SourceSite):
    source.session("tokyo", state="failed", reason="\x1b[2Jnot\nwell [bold]at all[/bold]")
    shown = status().out
    assert "\x1b[2J" not in shown
    assert "[bold]at all[/bold]" in shown
