"""`lrq trim`: empties the segments whose entries all sites have."""

import pytest
from sqlalchemy import text

from discovery.processes import owner_name
from discovery.status import read_status
from queues.browse.api import Wanted, browse
from queues.database import leases, servers
from queues.database.transactions import writing
from queues.names import SEND_LOG_ENTRIES, SiteId
from queues.send_log.known_sites import KnownSites, record_known
from queues.send_log.postgresql import trim_blockers
from tests.lrq.cli.command import Command
from tests.lrq.cli.source import SourceSite


@pytest.fixture
def trim(lrq: Command, source: SourceSite):
    """Give a function that runs `lrq trim` on the site."""
    return lambda *arguments: lrq("trim", "--database", source.url, *arguments)


def kept(source: SourceSite) -> list[bytes]:
    return [entry.payload for entry in browse(source.engine, SEND_LOG_ENTRIES, Wanted(everything=True)).entries]


def give_up(source: SourceSite) -> None:
    """Release the server's lease, so that no server works for the site."""
    held = leases.holder(source.engine, "server")
    assert held is not None
    leases.release(source.engine, held.lease)


def test_trim_of_an_empty_log_empties_no_segment(trim):
    done = trim()
    assert done.code == 0
    assert "0 segments emptied" in done.out
    assert "the log is empty" in done.out


def test_entries_that_every_site_has_are_trimmed_with_their_segment(trim, source: SourceSite):
    source.transmit(b"old", to=["tokyo"])
    source.session("tokyo", source.tick())
    give_up(source)
    assert trim("--json").json["trimmed"] == {"seq": 0, "segments": 0, "laggards": [], "unknown": []}
    facts = trim("--rotate", "--json").json
    assert facts["trimmed"] == {"seq": 1, "segments": 1, "laggards": [], "unknown": []}
    assert kept(source) == []


def test_the_lease_of_a_killed_process_does_not_delay_a_trim(trim, source: SourceSite):
    host, pid, start, *rest = owner_name().rsplit(":", 4)
    killed = ":".join((host, pid, str(int(start) - 1), *rest))
    assert leases.acquire(source.engine, "server", killed, 60) is not None
    done = trim()
    assert done.code == 0
    assert "0 segments emptied" in done.out


def test_entries_that_a_site_lacks_are_kept_and_the_site_is_named(trim, source: SourceSite):
    source.transmit(b"x", to=["tokyo"])
    source.tick()
    source.session("tokyo", 0)
    give_up(source)
    (segment,) = trim("--rotate", "--json").json["segments"]
    assert (segment["fate"], segment["lacking"]) == ("kept", [{"client": "policy", "destination": "tokyo"}])
    assert "for tokyo (policy)" in trim().out
    assert kept(source) == [b"x"]


def test_entries_for_a_destination_without_a_session_are_kept(trim, source: SourceSite):
    source.transmit(b"x", to=["tokyo"])
    source.tick()
    give_up(source)
    assert "for destinations that have no session yet" in trim("--rotate").out


def test_entries_past_retention_are_trimmed_and_the_losing_sites_are_named(trim, source: SourceSite):
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


def test_segments_are_trimmed_in_order(trim, source: SourceSite):
    source.transmit(b"for a site that never came", to=["oslo"])
    source.tick()
    give_up(source)
    trim("--rotate")
    source.transmit(b"x", to=["tokyo"])
    source.session("tokyo", source.tick())
    give_up(source)
    fates = [segment["fate"] for segment in trim("--rotate", "--json").json["segments"]]
    assert fates == ["kept", "behind one that is kept"]


def test_beside_a_working_server_trim_only_reports(trim, source: SourceSite):
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


def test_beside_servers_without_a_sequencer_trim_only_reports(trim, source: SourceSite):
    source.transmit(b"x", to=["tokyo"])
    source.session("tokyo", source.tick())
    give_up(source)
    server = owner_name()
    servers.register(source.engine, server, (), count=4, term=60.0)
    assert trim("--rotate", "--json").json["owner"] == server
    held = leases.holder(source.engine, "server")
    assert held is None or held.expired


def test_trim_releases_the_lease_of_the_site(trim, source: SourceSite):
    trim()
    assert leases.acquire(source.engine, "server", "somebody else", 60) is not None


def test_the_status_names_the_last_server_after_a_trim_and_not_the_command(trim, source: SourceSite):
    trim("--rotate")
    assert read_status(source.engine).server_owner is None
    lease = leases.acquire(source.engine, "server", "the server", 60)
    assert lease is not None
    leases.release(source.engine, lease)
    trim("--rotate")
    owner = read_status(source.engine).server_owner
    assert owner is not None
    assert (owner.owner, owner.alive, owner.generation) == ("the server", False, lease.generation + 1)


def test_trim_uses_the_retention_of_the_settings(trim, source: SourceSite, elsewhere):
    source.transmit(b"x", to=["tokyo"])
    source.tick()
    source.session("tokyo", 0)
    give_up(source)
    (elsewhere / "lrq.toml").write_text("retention_seconds = 0.000001\n")
    assert trim("--rotate", "--json").json["trimmed"]["segments"] == 1


def record_peers(source: SourceSite, *peers: str) -> None:
    with writing(source.engine) as connection:
        record_known(connection, KnownSites(frozenset(SiteId(peer) for peer in peers)))


def test_entries_for_a_site_that_is_no_peer_are_told_then_dropped_and_counted_until_forgotten(
    trim, source: SourceSite, elsewhere
):
    record_peers(source, "tokyo")
    source.transmit(b"x", to=["tokyo", "tokio"])
    source.session("tokyo", source.tick())
    give_up(source)
    done = trim("--rotate")
    assert done.code == 3
    assert "1 entry of policy for tokio, which is no peer" in done.out
    assert "for tokio (policy), which is no peer, until unknown_retention_seconds" in " ".join(done.out.split())
    (elsewhere / "lrq.toml").write_text("unknown_retention_seconds = 0.000001\n")
    done = trim("--json")
    lost = {"client": "policy", "destination": "tokio"}
    assert (done.code, done.json["trimmed"]["segments"]) == (3, 1)
    assert done.json["trimmed"]["unknown"] == [lost | {"entries": 1}]
    (told,) = done.json["unknown_destinations"]
    assert told.items() >= (lost | {"entries": 0, "dropped": 1, "is_peer": False}).items()
    assert kept(source) == []
    forgotten = trim("--forget-dropped", "--json")
    assert (forgotten.code, forgotten.json["forgotten"], forgotten.json["unknown_destinations"]) == (0, 1, [])


def test_a_peer_that_only_the_settings_name_keeps_its_entries(trim, source: SourceSite, elsewhere):
    record_peers(source)
    source.transmit(b"x", to=["tokyo"])
    source.tick()
    give_up(source)
    peers = '[peers]\ntokyo = "tcp://tokyo:1"\n'
    (elsewhere / "lrq.toml").write_text("unknown_retention_seconds = 0.000001\n" + peers)
    assert trim("--rotate", "--json").json["trimmed"]["segments"] == 0
    (elsewhere / "lrq.toml").write_text("unknown_retention_seconds = 0.000001\n")
    assert trim("--json").json["trimmed"]["segments"] == 1


def test_a_peer_that_only_the_table_names_keeps_its_entries(trim, lrq: Command, source: SourceSite, elsewhere):
    record_peers(source)
    source.transmit(b"x", to=["tokyo"])
    source.tick()
    give_up(source)
    (elsewhere / "lrq.toml").write_text("unknown_retention_seconds = 0.000001\n")
    assert lrq("peer", "add", "tokyo", "tcp://tokyo:1", "--database", source.url).code == 0
    assert trim("--rotate", "--json").json["trimmed"]["segments"] == 0
    assert lrq("peer", "remove", "tokyo", "--database", source.url).code == 0
    assert trim("--json").json["trimmed"]["segments"] == 1


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_a_transaction_that_keeps_trim_from_the_log_is_named_by_trim_and_status(
    trim, lrq: Command, source: SourceSite, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(trim_blockers, "_SECONDS", 0)
    source.transmit(b"x", to=["tokyo"])
    with source.engine.connect() as other:
        other.execute(text("SET LOCAL application_name = 'dump'"))
        other.execute(text("SELECT count(*) FROM lrq_log_entries"))
        assert "(dump) has used tables of the log for" in " ".join(trim().out.split())
        (of_trim,) = trim("--json").json["trim_blockers"]
        (of_status,) = lrq("status", "--json", "--database", source.url).json["log"]["trim_blockers"]
    assert (of_trim["name"], of_trim["ending"]) == (of_status["name"], of_status["ending"])
    assert trim("--json").json["trim_blockers"] == []
