"""`lrq send`: commits one entry and prints its token."""

from pathlib import Path

import pytest

from lr_client import RoutingQueueSenderClient
from queues.browse.api import Wanted, browse
from queues.database.transactions import writing
from queues.errors import WaitTimeoutError
from queues.names import SEND_LOG_ENTRIES, SiteId
from queues.positions import PositionToken
from queues.send_log.replica_members import store_groups
from tests.lrq.cli.command import Command, lrq_process, spawn, unheard
from tests.lrq.cli.source import SourceSite


@pytest.fixture
def send(lrq: Command, source: SourceSite):
    """Give a function that runs `lrq send` to tokyo for the client policy."""
    return lambda *arguments: lrq("send", "--database", source.url, "--client", "policy", "--to", "tokyo", *arguments)


def stored(source: SourceSite) -> list[bytes]:
    wanted = Wanted(preview_bytes=1_000_000)
    return [entry.payload for entry in browse(source.engine, SEND_LOG_ENTRIES, wanted).entries]


def test_send_prints_the_token_of_the_committed_entry(send, source: SourceSite):
    done = send("hello")
    assert done.code == 0
    token = PositionToken.parse(done.out.strip())
    assert (token.site, token.client) == ("paris", "policy")
    assert stored(source) == [b"hello"]


def test_the_payload_may_come_from_a_file(send, source: SourceSite, tmp_path: Path):
    file = tmp_path / "payload"
    file.write_bytes(bytes(range(256)))
    assert send(f"@{file}").code == 0
    assert stored(source) == [bytes(range(256))]


def test_an_unreadable_file_is_an_error(send, source: SourceSite):
    done = send("@missing")
    assert done.code == 1
    assert done.error == "missing: No such file or directory"
    assert stored(source) == []


@pytest.mark.processes
@pytest.mark.parametrize("argument", [["-"], []])
def test_the_payload_may_come_from_the_standard_input(source: SourceSite, argument: list[str]):
    command = ["send", "-d", source.url, "--client", "policy", "--to", "tokyo", *argument]
    assert lrq_process(*command, stdin=b"\x00\xff\r\n").returncode == 0
    assert stored(source) == [b"\x00\xff\r\n"]


def test_send_stores_keys_and_several_destinations(send, source: SourceSite):
    facts = send("x", "--to", "lima", "--to", "tokyo", "--item-key", "k", "--partition-key", "p", "--json").json
    assert (facts["destinations"], facts["bytes"], facts["replicated"]) == (["lima", "tokyo"], 1, None)
    (entry,) = browse(source.engine, SEND_LOG_ENTRIES).entries
    assert (entry.item_key, entry.partition_key, entry.outstanding) == ("k", "p", ("lima", "tokyo"))


def test_a_malformed_destination_is_an_error_and_nothing_is_written(send, source: SourceSite):
    done = send("x", "--to", "not a site")
    assert done.code == 2
    assert "is not a valid site id" in done.error
    assert stored(source) == []


def test_a_payload_above_the_limit_is_an_error(send, source: SourceSite, tmp_path: Path):
    file = tmp_path / "payload"
    file.write_bytes(bytes(16 * 1024 * 1024 + 1))
    done = send(f"@{file}")
    assert done.code == 2
    assert "the limit is" in done.error


def test_an_entry_not_replicated_in_time_stays_committed(send, source: SourceSite):
    done = send("x", "--wait", "0.05")
    assert done.code == 3
    assert PositionToken.parse(done.out.strip())
    assert "the entry is committed, but after 0.05 s these sites do not have" in done.error
    assert "tokyo" in done.error
    facts = send("y", "--wait", "0.05", "--json")
    assert (facts.code, facts.json["replicated"]) == (3, False)
    assert stored(source) == [b"x", b"y"]


def test_headers_are_sent_and_browse_shows_them(send, lrq: Command, source: SourceSite):
    assert send("with", "--header", "content-type=text/plain", "--header", "q=a=b").code == 0
    assert send("without").code == 0
    shown = lrq("browse", "--database", source.url, SEND_LOG_ENTRIES, "--json").json
    assert [entry["headers"] for entry in shown["entries"]] == [{"content-type": "text/plain", "q": "a=b"}, {}]
    page = lrq("browse", "--database", source.url, SEND_LOG_ENTRIES).out
    assert "content-type: text/plain" in page
    assert "q: a=b" in page


def test_browse_shows_no_column_of_headers_without_any(send, lrq: Command, source: SourceSite):
    assert send("without").code == 0
    assert "headers" not in lrq("browse", "--database", source.url, SEND_LOG_ENTRIES).out


def test_damaged_headers_are_shown_as_they_are_stored(send, lrq: Command, source: SourceSite):
    assert send("x", "--header", "a=b").code == 0
    with source.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE lrq_log_entries_0 SET headers = 'no\x1bJSON'")
    shown = lrq("browse", "--database", source.url, SEND_LOG_ENTRIES, "--json").json
    assert shown["entries"][0]["headers"] == "no\x1bJSON"
    assert "no�JSON" in lrq("browse", "--database", source.url, SEND_LOG_ENTRIES).out


@pytest.mark.parametrize(("given", "words"), [(["a"], "has no '='"), (["a=1", "a=2"], "is given twice")])
def test_a_header_that_cannot_be_read_is_an_error_and_nothing_is_written(
    send, source: SourceSite, given: list[str], words: str
):
    done = send("x", *(part for each in given for part in ("--header", each)))
    assert done.code == 2
    assert words in done.error
    assert stored(source) == []


def test_a_wait_for_a_member_of_a_group_is_for_that_member_only(source: SourceSite):
    token = source.transmit(b"x", to=["tokyo-a", "tokyo-b"])
    source.session("tokyo-a", source.tick())
    source.session("tokyo-b", 0, state="backing off", reason="no answer")
    with writing(source.engine) as connection:
        store_groups(connection, {SiteId("tokyo"): (SiteId("tokyo-a"), SiteId("tokyo-b"))})
    sender = RoutingQueueSenderClient("policy")
    sender.wait_replicated(source.engine, token, ["tokyo-a"], 0)
    with pytest.raises(WaitTimeoutError, match=r"do not have .* yet: tokyo-b$"):
        sender.wait_replicated(source.engine, token, ["tokyo"], 0)


@pytest.mark.postgresql
def test_a_character_that_the_database_lacks_is_one_sentence(lrq: Command, latin_database: str):
    place = ["--database", latin_database]
    assert lrq("init", *place, "--site", "paris").code == 0
    words = "the database has the encoding latin-1, which lacks the character '日'"
    for wrong in (["--item-key", "日"], ["--header", "a=日"]):
        done = lrq("send", *place, "--client", "policy", "--to", "tokyo", "x", *wrong)
        assert (done.code, words in done.error) == (1, True), done.error
    done = lrq("peer", "add", *place, "日", "tcp://127.0.0.1:7400")
    assert (done.code, words in done.error) == (1, True), done.error
    assert lrq("send", *place, "--client", "zähler", "--to", "tokyo", "日", "--header", "a=é").code == 0


@pytest.mark.processes
@pytest.mark.parametrize("options", [[], ["--json"], ["--json", "--wait", "0"]])
def test_a_stdout_that_takes_no_token_is_told_that_the_entry_is_committed(source: SourceSite, options: list[str]):
    command = ["send", "-d", source.url, "--client", "policy", "--to", "tokyo", "x", *options]
    with open("/dev/full", "wb") as full:
        process = spawn(*command, stdout=full, stderr=-1)
        _, words = process.communicate(timeout=60)
    told = unheard(*command)
    for code, said, reason in (
        (process.returncode, words, "No space left on device"),
        (told.returncode, told.stderr, "Broken pipe"),
    ):
        (line,) = [each for each in said.decode().splitlines() if not each.startswith("lrq: warning")]
        assert (code, line.startswith("lrq: the entry is committed as paris/policy/")) == (3, True), line
        assert line.endswith(f"; stdout could not be written ({reason})")
    assert stored(source) == [b"x", b"x"]


def test_several_sites_in_one_option_are_refused_with_the_right_way(send, source: SourceSite):
    refused = send("x", "--to", "tokyo,lima")
    assert (refused.code, "repeat --to for each site" in refused.error) == (2, True)
    assert stored(source) == []


def test_the_own_site_is_not_told_as_unknown(send, source: SourceSite):
    source.session("tokyo")
    refused = send("x", "--to", "paris")
    assert (refused.code, refused.warnings) == (2, [])
    assert "is this site itself" in refused.error
