"""`lrq browse`: the list of queues, their entries, pages, filters and payloads."""

import base64
import json

import pytest

from queues import names
from queues.database.leases import Lease
from queues.database.transactions import writing
from queues.receive import consumer_marks, consumer_moves, snapshot_blocks
from queues.receive.consumer_marks import Consumed
from tests.lr_client.subscriber.arrivals import Arrivals
from tests.lrq.cli.command import Command, lrq_process
from tests.lrq.cli.source import SourceSite

LOG = names.SEND_LOG_ENTRIES


@pytest.fixture
def browse(lrq: Command, source: SourceSite):
    """Give a function that runs `lrq browse` on the site."""
    return lambda *arguments: lrq("browse", "--database", source.url, *arguments)


def test_without_a_queue_browse_lists_all_queues_and_shows_the_log(browse, source: SourceSite):
    source.transmit(b"hello", to=["tokyo"])
    Arrivals(source.engine).tick([b"a", b"b"])
    shown = browse()
    assert shown.code == 0
    for words in (LOG, names.SEND_SNAP_SYNC, "LRQ_Recv_policy_tokyo", "lrq_logentry_tokyo", "hello"):
        assert words in shown.out
    facts = browse("--json").json
    counts = {queue["name"]: queue["outstanding"] for queue in facts["queues"]}
    assert counts == {LOG: 1, names.SEND_SNAP_SYNC: 0, "LRQ_Recv_policy_tokyo": 2}
    assert (facts["queue"], len(facts["entries"])) == (LOG, 1)


def test_json_has_whole_payloads_in_base64_and_the_tags(browse, source: SourceSite):
    payload = bytes(range(256)) * 10
    source.transmit(payload, to=["tokyo", "lima"], item_key="k")
    facts = browse(LOG, "--json").json
    assert "queues" not in facts
    (entry,) = facts["entries"]
    assert base64.b64decode(entry["payload"]) == payload
    assert entry["tags"] == ["lrq_logentry_lima", "lrq_logentry_tokyo"]
    assert (entry["size"], entry["truncated"], entry["item_key"]) == (2560, False, "k")


def test_a_page_gives_the_start_of_the_next_page(browse, source: SourceSite):
    source.transmit(b"1", b"2", b"3", to=["tokyo"])
    first = browse(LOG, "--json", "--limit", "2").json
    second = browse(LOG, "--json", "--after", first["next"]).json
    assert [len(first["entries"]), len(second["entries"]), second["next"]] == [2, 1, None]
    assert f"--after {first['next']}" in browse(LOG, "--limit", "2").out


def test_destination_and_client_filter_the_entries(browse, source: SourceSite):
    source.transmit(b"1", to=["tokyo"])
    source.transmit(b"2", to=["lima"], client="other")
    assert len(browse(LOG, "--json", "--destination", "lima").json["entries"]) == 1
    assert len(browse(LOG, "--json", "--client", "policy").json["entries"]) == 1
    assert "nothing is outstanding" in browse(LOG, "--client", "policy", "--destination", "lima").out


def test_entries_acknowledged_by_all_are_shown_with_all_only(browse, source: SourceSite):
    source.transmit(b"1", to=["tokyo"])
    source.session("tokyo", source.tick())
    assert browse(LOG, "--json").json["entries"] == []
    (entry,) = browse(LOG, "--json", "--all").json["entries"]
    assert entry["outstanding"] == []


@pytest.mark.processes
def test_a_payload_is_written_byte_for_byte(source: SourceSite):
    payload = bytes(range(256)) * 1000
    source.transmit(b"other", payload, to=["tokyo"])
    page = json.loads(lrq_process("browse", LOG, "-d", source.url, "--json").stdout)
    done = lrq_process("browse", LOG, "-d", source.url, "--raw", page["entries"][1]["position"])
    assert (done.returncode, done.stdout, done.stderr) == (0, payload, b"")


def test_a_preview_escapes_control_characters_and_markup(browse, source: SourceSite):
    source.transmit(b"\x1b[2J\x07evil", b"[red]not markup[/red]", "‮reversed".encode(), to=["tokyo"])
    shown = browse(LOG).out
    assert "\x1b[2J" not in shown
    assert "\x07" not in shown
    assert "‮" not in shown
    assert "[red]not markup[/red]" in shown


def test_full_shows_whole_payloads_and_all_tags(browse, source: SourceSite):
    source.transmit(b"x" * 500, to=[f"site{number}" for number in range(9)])
    assert browse(LOG).out.count("x") < 200
    shown = browse(LOG, "--full").out
    assert shown.count("x") >= 500
    assert shown.count("lrq_logentry_site") == 9


def test_an_unknown_queue_is_an_error(browse):
    done = browse("LRQ_Recv_nobody_nowhere")
    assert done.code == 2
    assert "there is no queue 'LRQ_Recv_nobody_nowhere'" in done.error


@pytest.mark.parametrize("queue", [LOG, names.SEND_SNAP_SYNC])
@pytest.mark.parametrize("option", ["--after", "--raw"])
def test_a_malformed_position_is_an_error(browse, queue: str, option: str):
    done = browse(queue, option, "nonsense")
    assert done.code == 2
    assert "'nonsense' is not a position" in done.error


# --- receive queues -------------------------------------------------------------------------------------------


def received(source: SourceSite, lrq: Command, *arguments: str) -> dict:
    return lrq("browse", "LRQ_Recv_policy_tokyo", "--json", "--database", source.url, *arguments).json


def payloads(facts: dict) -> list[bytes]:
    return [base64.b64decode(entry["payload"]) for entry in facts["entries"]]


def test_a_receive_queue_shows_the_entries_to_apply(lrq: Command, source: SourceSite):
    arrivals = Arrivals(source.engine)
    arrivals.tick([b"1", b"2"], [b"3"])
    facts = received(source, lrq)
    assert payloads(facts) == [b"1", b"2", b"3"]
    assert [entry["position"] for entry in facts["entries"]] == ["1", "2", "3"]
    assert {tuple(entry["tags"]) for entry in facts["entries"]} == {("lrq_recv_policy",)}
    assert {(entry["client"], entry["source"]) for entry in facts["entries"]} == {("policy", "tokyo")}


def test_a_snapshot_to_apply_comes_before_the_log_and_an_arriving_one_after_it(lrq: Command, source: SourceSite):
    arrivals = Arrivals(source.engine)
    arrivals.snapshot("one", [b"s1", b"s2"])
    arrivals.tick([b"1"])
    arrivals.stage("two", [b"t1"])
    with writing(source.engine) as connection:
        arrivals._save(connection, staging_sync_id="two", staging_rows=1)
    facts = received(source, lrq)
    assert payloads(facts) == [b"s1", b"s2", b"1", b"t1"]
    assert [entry["kind"] for entry in facts["entries"]] == ["snapshot", "snapshot", "log entry", "staged"]
    seen, after = [], ""
    while after is not None:
        page = received(source, lrq, "--limit", "1", "--after", after)
        seen += payloads(page)
        after = page["next"]
    assert seen == [b"s1", b"s2", b"1", b"t1"]


def test_a_partly_applied_snapshot_shows_its_remaining_rows(lrq: Command, source: SourceSite):
    arrivals = Arrivals(source.engine)
    arrivals.snapshot("one", [b"s1", b"s2", b"s3", b"s4", b"s5"])
    with writing(source.engine) as connection:
        queue_id = arrivals.queue_id(connection)
    consumer_marks.enroll(source.engine, queue_id)
    lease = Lease("subscriber/policy", "me", 1)
    begun = Consumed("snapshot", "one", 3, "", 0)
    with writing(source.engine) as connection:
        assert consumer_moves.move(connection, queue_id, lease, Consumed("log", "", 0, "", 0), begun)
        assert snapshot_blocks.remove(connection, queue_id, "one", after=0, upto=3) == 3
    assert payloads(received(source, lrq)) == [b"s4", b"s5"]
    assert "2 of a snapshot" in lrq("browse", "--database", source.url).out


@pytest.mark.processes
def test_a_received_payload_is_written_byte_for_byte(source: SourceSite):
    Arrivals(source.engine).snapshot("one", [b"s1", b"s\xff2"])
    done = lrq_process("browse", "LRQ_Recv_policy_tokyo", "-d", source.url, "--raw", "snapshot:2")
    assert (done.returncode, done.stdout) == (0, b"s\xff2")


def test_a_destination_is_refused_for_a_receive_queue(lrq: Command, source: SourceSite):
    Arrivals(source.engine).tick([b"1"])
    done = lrq("browse", "LRQ_Recv_policy_tokyo", "--destination", "x", "--database", source.url)
    assert done.code == 2
    assert "leave out the destination" in done.error
