"""`lrq send`: commits one entry and prints its token."""

from pathlib import Path

import pytest

from queues.browse.api import Wanted, browse
from queues.names import SEND_LOG_ENTRIES
from queues.positions import PositionToken
from tests.lrq.cli.command import Command, lrq_process
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
