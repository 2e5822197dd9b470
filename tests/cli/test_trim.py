"""`lrq trim`."""

import pytest

from discovery.processes import owner_name
from queues import leases
from queues.browse.looking import Wanted, browse
from queues.names import SEND_LOG_ENTRIES
from tests.cli.command import Command
from tests.cli.source import SourceSite


@pytest.fixture
def trim(lrq: Command, source: SourceSite):
    """Give a function that trims the site."""
    return lambda *arguments: lrq("trim", "--database", source.url, *arguments)


def kept(source: SourceSite) -> list[bytes]:
    return [entry.payload for entry in browse(source.engine, SEND_LOG_ENTRIES, Wanted(everything=True)).entries]


def give_up(source: SourceSite) -> None:
    """Let no server work for the site."""
    held = leases.holder(source.engine, "server")
    assert held is not None
    leases.release(source.engine, held.lease)


def test_an_empty_log_has_nothing_to_trim(trim):
    done = trim()
    assert done.code == 0
    assert "0 segments emptied" in done.out
    assert "the log is empty" in done.out


def test_what_everyone_has_goes_with_its_segment(trim, source: SourceSite):
    source.transmit(b"old", to=["tokyo"])
    source.session("tokyo", source.tick())
    give_up(source)
    assert trim("--json").json["trimmed"] == {"seq": 0, "segments": 0, "laggards": []}
    facts = trim("--rotate", "--json").json
    assert facts["trimmed"] == {"seq": 1, "segments": 1, "laggards": []}
    assert kept(source) == []


def test_what_somebody_lacks_is_kept_and_told(trim, source: SourceSite):
    source.transmit(b"x", to=["tokyo"])
    source.tick()
    source.session("tokyo", 0)
    give_up(source)
    (segment,) = trim("--rotate", "--json").json["segments"]
    assert (segment["fate"], segment["lacking"]) == ("kept", [{"client": "policy", "destination": "tokyo"}])
    assert "for tokyo (policy)" in trim().out
    assert kept(source) == [b"x"]


def test_what_a_destination_without_a_session_lacks_is_kept(trim, source: SourceSite):
    source.transmit(b"x", to=["tokyo"])
    source.tick()
    give_up(source)
    assert "for destinations that have no session yet" in trim("--rotate").out


def test_beyond_retention_it_goes_all_the_same_and_who_loses_is_told(trim, source: SourceSite):
    source.transmit(b"x", to=["tokyo"])
    source.tick()
    source.session("tokyo", 0)
    give_up(source)
    trim("--rotate")
    warned = trim("--dry-run", "--retention-seconds", "0")
    assert "a full snapshot will be needed by tokyo (policy)" in warned.out
    assert kept(source) == [b"x"]
    done = trim("--retention-seconds", "0")
    assert done.code == 0
    assert "a full snapshot is needed now by tokyo (policy)" in done.out
    assert kept(source) == []


def test_entries_in_no_tick_are_kept(trim, source: SourceSite):
    source.transmit(b"x", to=["tokyo"])
    (segment,) = trim("--rotate", "--retention-seconds", "0", "--json").json["segments"]
    assert segment["fate"] == "not in a tick yet"


def test_segments_go_in_their_order(trim, source: SourceSite):
    source.transmit(b"for a site that never came", to=["oslo"])
    source.tick()
    give_up(source)
    trim("--rotate")
    source.transmit(b"x", to=["tokyo"])
    source.session("tokyo", source.tick())
    give_up(source)
    fates = [segment["fate"] for segment in trim("--rotate", "--json").json["segments"]]
    assert fates == ["kept", "behind one that is kept"]


def test_while_a_server_works_it_is_only_told_what_would_go(trim, source: SourceSite):
    source.transmit(b"x", to=["tokyo"])
    source.session("tokyo", source.tick())
    leases.acquire(source.engine, "server", owner_name(), 60)
    done = trim("--rotate")
    assert done.code == 0
    assert "works for paris and trims by itself" in done.out
    facts = trim("--rotate", "--json").json
    assert facts["trimmed"] is None
    assert facts["owner"]
    assert kept(source) == [b"x"]


def test_it_gives_the_site_back(trim, source: SourceSite):
    trim()
    assert leases.acquire(source.engine, "server", "somebody else", 60) is not None


def test_the_retention_is_that_of_the_settings(trim, source: SourceSite, elsewhere):
    source.transmit(b"x", to=["tokyo"])
    source.tick()
    source.session("tokyo", 0)
    give_up(source)
    (elsewhere / "lrq.toml").write_text("retention_seconds = 0.000001\n")
    assert trim("--rotate", "--json").json["trimmed"]["segments"] == 1
