"""`lrq snapshot`, and the snapshots that `lrq browse` shows."""

import base64
from collections.abc import Iterator

import pytest

from lrq.cli.snapshot_requests import Follow
from lrq.cli.views.snapshot_screen import show_until_done
from queues import names, send_snapshot
from queues.database.transactions import writing
from queues.names import SiteId
from queues.send_log.replica_members import store_groups
from queues.send_snapshot import SnapshotState
from tests.lr_client.snapshot.providing import POLICY, Provider, newest, numbered, quick
from tests.lr_client.snapshot.providing import request as ask
from tests.lrq.cli.command import Command
from tests.lrq.cli.source import SourceSite
from tests.waiting import eventually


@pytest.fixture
def snapshot(lrq: Command, source: SourceSite):
    """Give a function that runs a command of `lrq snapshot` on the site."""
    return lambda command, *arguments: lrq("snapshot", command, "--database", source.url, *arguments)


@pytest.fixture
def provided(source: SourceSite) -> Iterator[Provider]:
    """Run a provider of snapshots of five rows at the site."""
    provider = Provider(numbered(5))
    with quick(source.engine, provider):
        yield provider


def ready(source: SourceSite, destination: str = "tokyo") -> str:
    eventually(lambda: newest(source.engine, destination).state is SnapshotState.READY)
    return newest(source.engine, destination).sync_id


def apply(source: SourceSite, destination: str = "tokyo") -> None:
    """Mark the snapshot as applied, as the server does once the sink has all of it."""
    sync_id = ready(source, destination)
    with writing(source.engine) as connection:
        send_snapshot.mark_applied(connection, sync_id)


def test_a_request_for_one_site_is_stored_and_prints_its_id(snapshot, source: SourceSite):
    done = snapshot("request", "tokyo", "--client", "policy", "--reason", "the table was repaired")
    assert done.code == 0
    found = newest(source.engine)
    assert (found.sync_id, found.state, found.reason) == (done.out.strip(), "requested", "the table was repaired")


def test_a_request_without_a_provider_is_stored_with_a_warning(snapshot, source: SourceSite):
    done = snapshot("request", "tokyo", "--client", "policy")
    assert (done.code, done.warnings) == (
        0,
        ["no provider of client policy is running, so the request waits: start one (`lrq provide`)"],
    )
    assert newest(source.engine).sync_id == done.out.strip()
    assert len(snapshot("request", "--all", "--client", "policy", "--json").warnings) == 1


def test_a_request_with_a_provider_brings_no_warning(snapshot, source: SourceSite, provided: Provider):
    eventually(lambda: snapshot("list", "--json").json["providers"])
    done = snapshot("request", "tokyo", "--client", "policy")
    assert (done.code, done.warnings) == (0, [])


def test_a_request_for_every_site_is_one_request(snapshot, source: SourceSite):
    facts = snapshot("request", "--all", "--client", "policy", "--json").json
    assert (facts["destination"], facts["state"]) == ("*", "requested")
    assert "every site" in snapshot("list").out


def test_the_only_client_need_not_be_named(snapshot, source: SourceSite):
    nobody = snapshot("request", "tokyo")
    assert nobody.code == 2
    assert "say which --client" in nobody.error
    source.transmit(b"x", to=["tokyo"])
    source.tick()
    assert snapshot("request", "tokyo").code == 0
    source.transmit(b"x", to=["tokyo"], client="other")
    source.tick()
    assert "one of other, policy" in snapshot("request", "tokyo").error


def test_the_list_shows_requests_and_providers(snapshot, source: SourceSite, provided: Provider):
    ask(source.engine, "tokyo", "lima")
    ready(source)
    ready(source, "lima")
    facts = snapshot("list", "--json").json
    assert {(each["destination"], each["state"], each["rows"]) for each in facts["snapshots"]} == {
        ("tokyo", "ready", 5),
        ("lima", "ready", 5),
    }
    assert [(each["client"], each["alive"]) for each in facts["providers"]] == [("policy", True)]
    assert "provider of policy" in snapshot("list").out
    assert snapshot("list", "--client", "other", "--json").json["snapshots"] == []


def test_a_list_of_nothing_says_so(snapshot):
    assert "no snapshot was requested yet" in snapshot("list").out


def test_watch_waits_until_the_snapshot_is_applied(snapshot, source: SourceSite, provided: Provider):
    ask(source.engine, "tokyo")
    sync_id = ready(source)
    late = snapshot("watch", sync_id, "--timeout", "0")
    assert late.code == 3
    assert "the snapshot of policy for tokyo is ready at the timeout" in late.error
    apply(source)
    done = snapshot("watch", sync_id[:8])
    assert done.code == 0
    assert done.out == "policy to tokyo: applied 5 rows, 25 B\n"


def test_watch_follows_a_request_for_every_site_to_the_snapshot_of_each_site(
    snapshot, source: SourceSite, provided: Provider
):
    sync_id = snapshot("request", "--all", "--client", "policy").out.strip()
    assert snapshot("watch", sync_id, "--timeout", "0", "--json").json["snapshots"][0]["destination"] == "*"
    follow = Follow(source.engine, sync_id)
    with writing(source.engine) as connection:
        send_snapshot.expand(connection, POLICY, [SiteId("tokyo"), SiteId("lima")])
    apply(source, "tokyo")
    assert not follow.look().finished
    apply(source, "lima")
    outcome = follow.look()
    assert outcome.applied
    assert [each.destination for each in outcome.snapshots] == ["lima", "tokyo"]


def test_watch_follows_a_request_for_a_group_to_its_members(snapshot, source: SourceSite, provided: Provider):
    members = (SiteId("tokyo-a"), SiteId("tokyo-b"))
    with writing(source.engine) as connection:
        store_groups(connection, {SiteId("tokyo"): members})
    follow = Follow(source.engine, snapshot("request", "tokyo", "--client", "policy").out.strip())
    ask(source.engine, "lima")
    with writing(source.engine) as connection:
        send_snapshot.expand(connection, POLICY, members, SiteId("tokyo"))
    apply(source, "tokyo-a")
    assert not follow.look().finished
    apply(source, "tokyo-b")
    assert [each.destination for each in follow.look().snapshots] == ["tokyo-a", "tokyo-b"]
    assert follow.look().applied


def test_cancel_takes_the_name_of_a_group(snapshot, source: SourceSite):
    members = (SiteId("tokyo-a"), SiteId("tokyo-b"))
    with writing(source.engine) as connection:
        store_groups(connection, {SiteId("tokyo"): members})
    ask(source.engine, "tokyo-a", "tokyo-b", "lima")
    assert snapshot("cancel", "tokyo", "--client", "policy").out == "2 snapshots cancelled\n"
    assert newest(source.engine, "tokyo-b").state is SnapshotState.CANCELLED
    assert newest(source.engine, "lima").state is SnapshotState.REQUESTED
    assert snapshot("cancel", "--all", "--client", "policy").out == "1 snapshot cancelled\n"


@pytest.mark.parametrize(
    ("asked_for", "words"),
    [
        ("--all", "no site gets a snapshot of policy: the server knows no peer"),
        ("tokyo", "the request for tokyo is gone"),
    ],
)
def test_watch_ends_once_a_request_has_become_none(snapshot, source: SourceSite, asked_for: str, words: str):
    follow = Follow(source.engine, snapshot("request", asked_for, "--client", "policy").out.strip())
    assert not follow.look().finished
    with writing(source.engine) as connection:
        send_snapshot.expand(connection, POLICY, [])
        send_snapshot.forget(connection, POLICY, SiteId("tokyo"))
    outcome = show_until_done(follow, timeout=600.0, silent=True)
    assert (outcome.applied, outcome.timed_out) == (False, False)
    assert words in outcome.words()


def test_cancel_needs_no_client_if_requests_of_only_one_wait(snapshot, source: SourceSite):
    for client in ("policy", "other"):
        source.transmit(b"x", to=["tokyo"], client=client)
    source.tick()
    snapshot("request", "tokyo", "--client", "polcy")
    assert snapshot("cancel", "tokyo").out == "1 snapshot cancelled\n"
    assert "one of other, policy" in snapshot("cancel", "tokyo").error
    for client in ("polcy", "policy"):
        snapshot("request", "tokyo", "--client", client)
    assert "one of polcy, policy" in snapshot("cancel", "tokyo").error
    assert "one of polcy, policy" in snapshot("cancel", "--all").error


def test_cancel_asks_for_the_site_in_place_of_an_id(snapshot, source: SourceSite):
    (sync_id,) = ask(source.engine, "tokyo")
    refused = snapshot("cancel", sync_id)
    assert (refused.code, refused.warnings) == (2, [])
    assert f"{sync_id} is the id of a snapshot for tokyo: name the site" in refused.error
    assert snapshot("cancel", "tokyo").out == "1 snapshot cancelled\n"


def test_watch_reports_a_cancelled_snapshot_as_not_applied(snapshot, source: SourceSite):
    (sync_id,) = ask(source.engine, "tokyo")
    done = snapshot("cancel", "tokyo", "--client", "policy")
    assert (done.code, done.out) == (0, "1 snapshot cancelled\n")
    watched = snapshot("watch", sync_id, "--json")
    assert (watched.code, watched.json["applied"], watched.json["timed_out"]) == (3, False, False)
    assert "the snapshot of policy for tokyo is cancelled: cancelled by `lrq snapshot`" in watched.error


def test_an_unknown_snapshot_is_an_error(snapshot):
    done = snapshot("watch", "0123")
    assert done.code == 2
    assert "there is no snapshot '0123'" in done.error


# --- the queue ------------------------------------------------------------------------------------------------


def browse(lrq: Command, source: SourceSite, *arguments: str) -> dict:
    return lrq("browse", names.SEND_SNAP_SYNC, "--json", "--database", source.url, *arguments).json


def test_the_rows_of_a_ready_snapshot_are_outstanding(lrq: Command, source: SourceSite, provided: Provider):
    ask(source.engine, "tokyo")
    sync_id = ready(source)
    facts = browse(lrq, source)
    assert [base64.b64decode(entry["payload"]) for entry in facts["entries"]] == [b"row %d" % n for n in range(5)]
    assert {tuple(entry["tags"]) for entry in facts["entries"]} == {("lrq_snapsync_tokyo",)}
    assert facts["entries"][0]["position"] == f"{sync_id}:1"
    apply(source)
    assert browse(lrq, source)["entries"] == []


def test_pages_continue_from_one_snapshot_to_the_next(lrq: Command, source: SourceSite, provided: Provider):
    ask(source.engine, "tokyo")
    ready(source)
    ask(source.engine, "lima")
    ready(source, "lima")
    seen, after = [], ""
    while after is not None:
        page = browse(lrq, source, "--limit", "3", "--after", after)
        seen += [(entry["outstanding"][0], entry["seq"]) for entry in page["entries"]]
        after = page["next"]
    assert seen == [("tokyo", n) for n in range(1, 6)] + [("lima", n) for n in range(1, 6)]
    assert len(browse(lrq, source, "--destination", "lima")["entries"]) == 5
    assert browse(lrq, source, "--client", "other")["entries"] == []


def test_the_list_of_queues_counts_snapshots_and_their_rows(lrq: Command, source: SourceSite, provided: Provider):
    ask(source.engine, "tokyo")
    ready(source)
    queues = {each["name"]: each for each in lrq("browse", "--json", "--database", source.url).json["queues"]}
    assert queues[names.SEND_SNAP_SYNC]["outstanding"] == 5
    assert queues[names.SEND_SNAP_SYNC]["detail"] == "snapshots: 1 ready"
