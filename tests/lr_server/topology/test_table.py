"""The table of peers: each change is checked as a whole, and has a version of its own."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Engine, text

from lr_server.topology.providers import PeerList, TableProvider
from lr_server.topology.rules import OwnSite
from lr_server.topology.table import PeerChange, add_peer, drop_peer
from queues.database import servers
from queues.database.peers import PeerRow, PeerTable, read_table
from queues.database.transactions import reading, writing
from queues.errors import ConfigurationError
from queues.names import SiteId
from tests.seen_statements import seen_statements

PARIS = OwnSite("paris")


def row(site: str, endpoint: str = "", snapshots: str = "") -> PeerRow:
    return PeerRow(SiteId(site), endpoint or f"tcp://{site}:7400", snapshots)


def add(site: Engine, *rows: PeerRow, own: OwnSite = PARIS) -> list[PeerChange]:
    return [add_peer(site, each, own) for each in rows]


def peer_table(site: Engine) -> PeerTable:
    with reading(site) as connection:
        return read_table(connection)


def test_a_new_site_has_no_peers(site: Engine) -> None:
    assert peer_table(site).rows == ()
    assert TableProvider(site).read() == PeerList({}, version=1)


def test_each_change_has_a_higher_version(site: Engine) -> None:
    added, moved, again = add(site, row("tokyo"), row("tokyo", "tcp://b:1"), row("tokyo", "tcp://b:1"))
    assert [each.version for each in (added, moved, again)] == [2, 3, 3]
    assert (added.before, moved.before, again.is_change) == (None, row("tokyo"), False)
    removed, nothing = drop_peer(site, SiteId("tokyo")), drop_peer(site, SiteId("tokyo"))
    assert (removed.version, removed.is_change, nothing.version, nothing.is_change) == (4, True, 4, False)
    assert TableProvider(site).read() == PeerList({}, version=4)


def test_a_provider_gives_the_rows_and_their_endpoints_for_snapshots(site: Engine) -> None:
    add(site, row("tokyo", snapshots="tcp://tokyo:7401"), row("lima"))
    found = TableProvider(site).read()
    assert found.peers == {"tokyo": "tcp://tokyo:7400", "lima": "tcp://lima:7400"}
    assert (found.snapshot_endpoints, found.version) == ({"tokyo": "tcp://tokyo:7401"}, 3)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (row("paris"), "peers names 'paris', which is this site itself"),
        (row("lima", "nowhere"), r"peers\[lima\]: 'nowhere' is not an endpoint"),
        (row("lima", "tls://lima:7400"), "needs TLS: set tls_certificate"),
        (row("lima", "tcp://paris-a:7400"), "leads to this site itself"),
    ],
)
def test_a_wrong_peer_is_refused_and_nothing_is_written(site: Engine, wrong: PeerRow, words: str) -> None:
    servers.register(site, "a", ["tcp://paris-a:7400"], count=4, term=60)
    add(site, row("tokyo"))
    before = peer_table(site)
    with pytest.raises(ConfigurationError, match=words):
        add(site, wrong)
    assert peer_table(site) == before


def test_changes_at_once_come_one_after_the_other(site: Engine) -> None:
    first = peer_table(site).version.number
    with ThreadPoolExecutor(8) as threads:
        changes = list(threads.map(lambda number: add(site, row(f"site{number}")), range(8)))
    assert sorted(change.version for (change,) in changes) == [*range(first + 1, first + 9)]
    assert len(peer_table(site).rows) == 8


def test_a_table_without_a_change_is_read_by_its_version_alone(site: Engine) -> None:
    add(site, row("tokyo"))
    provider = TableProvider(site)
    first = provider.read()
    statements = seen_statements(site)
    assert provider.read() is first
    assert [each for each in statements if "lrq_peers" in each and "lrq_peers_version" not in each] == []
    add(site, row("lima"))
    assert set(provider.read().peers) == {"tokyo", "lima"}


def test_a_restored_table_with_an_earlier_version_is_read(site: Engine) -> None:
    add(site, row("tokyo"), row("lima"))
    provider = TableProvider(site)
    provider.read()
    with writing(site) as connection:
        connection.execute(text("DELETE FROM lrq_peers WHERE site = 'lima'"))
        connection.execute(text("UPDATE lrq_peers_version SET version = 2, changed_us = 5"))
    assert provider.read() == PeerList({"tokyo": "tcp://tokyo:7400"}, version=2)
    with writing(site) as connection:  # another change after the restore, with the number of a former one
        connection.execute(text("UPDATE lrq_peers SET endpoint = 'tcp://moved:1'"))
        connection.execute(text("UPDATE lrq_peers_version SET changed_us = 6"))
    assert provider.read().peers == {"tokyo": "tcp://moved:1"}


def test_the_row_of_the_version_comes_back_if_it_is_lost(site: Engine) -> None:
    with writing(site) as connection:
        connection.execute(text("DELETE FROM lrq_peers_version"))
    assert TableProvider(site).read() == PeerList({}, version=1)
    (added,) = add(site, row("tokyo"))
    assert TableProvider(site).read() == PeerList({"tokyo": "tcp://tokyo:7400"}, version=added.version)
