"""`lrq doctor` reads the peers where a server does, judges them, and names servers that follow others."""

from pathlib import Path

from sqlalchemy import Engine, text

from lr_server.topology.rules import OwnSite
from lr_server.topology.table import add_peer
from queues.database import servers
from queues.database.peers import PeerRow
from queues.leadership import TopologyFacts
from queues.names import SiteId
from tests.lrq.cli.command import Command
from tests.lrq.cli.doctor.test_doctor import Examined, write

ADDED = PeerRow(SiteId("tokyo"), "ipc:///nowhere/tokyo.sock", "ipc:///nowhere/snapshots.sock")


def sentences(found: Examined, level: str) -> list[str]:
    return [each["sentence"] for each in found.all if (each["check"], each["level"]) == ("topology", level)]


def test_the_peers_of_the_file_are_counted(lrq: Command, site: Engine) -> None:
    found = Examined(lrq, "--config", write("paris.toml", site, "paris"))
    assert sentences(found, "ok") == ["0 peers in the settings"]


def test_the_peers_of_the_table_are_asked_at_all_their_endpoints(lrq: Command, site: Engine) -> None:
    add_peer(site, ADDED, OwnSite("paris"))
    found = Examined(lrq, "--config", write("paris.toml", site, "paris", 'topology = "table"'))
    assert sentences(found, "ok") == ["1 peer in the table lrq_peers, version 2"]
    told = [each["sentence"] for each in found.all if each["check"] == "peer tokyo"]
    assert [words.partition(" ")[0] for words in told] == [ADDED.endpoint, ADDED.snapshot_endpoint]


def test_peers_of_the_file_that_no_server_uses_are_a_warning(lrq: Command, site: Engine) -> None:
    file = write("paris.toml", site, "paris", 'topology = "table"', lima="ipc:///nowhere/lima.sock")
    found = Examined(lrq, "--config", file)
    assert sentences(found, "warning") == ["`peers` of the settings has 1 site that no server uses"]
    assert [each for each in found.all if each["check"] == "peer lima"] == []


def test_wrong_peers_in_the_table_are_a_problem(lrq: Command, site: Engine) -> None:
    add_peer(site, ADDED, OwnSite("paris"))
    with site.begin() as connection:
        connection.execute(text("UPDATE lrq_peers SET endpoint = 'nowhere'"))
    found = Examined(lrq, "--config", write("paris.toml", site, "paris", 'topology = "table"'))
    assert found.problem("topology").startswith("peers[tokyo]: 'nowhere' is not an endpoint: write tcp://host:port")


def test_a_provider_that_fails_is_a_problem(lrq: Command, site: Engine) -> None:
    Path("failing_places.py").write_text("class Broken:\n    def read(self): raise RuntimeError('no token')\n")
    found = Examined(lrq, "--config", write("paris.toml", site, "paris", 'topology = "failing_places:Broken"'))
    assert "RuntimeError: no token" in found.problem("topology")


def test_a_server_that_follows_other_peers_is_a_warning(lrq: Command, site: Engine) -> None:
    facts = TopologyFacts("the table lrq_peers", 7, "the database is away")
    servers.register(site, "a:1:x", [], count=4, term=60, topology=facts)
    found = Examined(lrq, "--config", write("paris.toml", site, "paris"))
    assert sentences(found, "warning") == [
        "a pid 1 has its peers from the table lrq_peers, version 7",
        "a pid 1 keeps its peers: the database is away",
    ]
