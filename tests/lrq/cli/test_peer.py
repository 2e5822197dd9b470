"""`lrq peer`: the table of peers, and the servers that follow it."""

import re
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from queues.database import grants, servers
from queues.database.grantees import Grantee
from queues.database.transactions import writing
from queues.leadership import TopologyFacts
from queues.names import ClientName, SiteId
from queues.send_log.links import set_wish
from queues.send_log.port import SessionKey
from queues.states import LinkWish
from tests.lrq.cli.command import Command
from tests.system import roles

TOKYO = "tcp://10.0.0.2:7400"


@pytest.fixture
def file(site: Engine) -> Path:
    """Write the file of site paris, with the table as its topology; give its path."""
    path = Path("lrq.toml")
    url = site.url.render_as_string(hide_password=False)
    path.write_text(
        f'site_id = "paris"\ndatabase_url = "{url}"\nlisten = ["tcp://127.0.0.1:7400"]\ntopology = "table"\n'
    )
    return path


def listed(lrq: Command) -> dict[str, str]:
    return {each["site"]: each["endpoint"] for each in lrq("peer", "list", "--json").json["peers"]}


def test_peers_are_added_moved_listed_and_removed(lrq: Command, file: Path) -> None:
    added = lrq("peer", "add", "tokyo", TOKYO)
    assert (added.code, added.out) == (0, "tokyo is added; version 2 of the peers\n")
    both = f"{TOKYO}, tcp://10.0.0.3:7400"
    moved = lrq("peer", "add", "tokyo", both)
    assert moved.out == "tokyo has another endpoint now; version 3 of the peers\n"
    assert lrq("peer", "add", "tokyo", both).out == "tokyo is as it was; version 3 of the peers\n"
    assert listed(lrq) == {"tokyo": both}
    shown = lrq("peer", "list")
    assert shown.out.splitlines()[-1] == "paris has 1 peer in the table lrq_peers, version 3"
    assert both in shown.out
    removed = lrq("peer", "remove", "tokyo")
    assert (removed.code, removed.out, removed.err) == (0, "tokyo is removed; version 4 of the peers\n", "")
    assert listed(lrq) == {}


def test_the_help_names_no_command_that_is_not_there(lrq: Command) -> None:
    assert not re.search(r"\bmove\b", lrq("peer", "--help").out)


def test_the_facts_are_there_as_json(lrq: Command, file: Path) -> None:
    added = lrq("peer", "add", "tokyo", TOKYO, "--json")
    assert added.json == {"site": "paris", "peer": "tokyo", "version": 2, "changed": True}
    assert lrq("peer", "list", "--json").json == {
        "site": "paris",
        "source": "the table lrq_peers",
        "version": 2,
        "peers": [{"site": "tokyo", "endpoint": TOKYO, "snapshot_endpoint": ""}],
        "servers": [],
    }
    assert lrq("peer", "remove", "tokyo", "--json").json["changed"] is True


@pytest.mark.parametrize(
    ("peer", "endpoint", "words"),
    [
        ("paris", TOKYO, "peers names 'paris', which is this site itself: remove that peer"),
        ("lima", "10.0.0.2", "peers[lima]: '10.0.0.2' is not an endpoint: write tcp://host:port"),
        ("lima", "local:oslo", "peers[lima]: local:oslo leads to site 'oslo': write local:lima"),
        ("lima", "tls://lima:1", "peers[lima]: tls://lima:1 needs TLS: set tls_certificate, tls_key"),
        ("lima", "tcp://127.0.0.1:7400", "peers[lima]: tcp://127.0.0.1:7400 leads to this site itself"),
        ("li ma", TOKYO, "'li ma' is not a valid site id"),
    ],
)
def test_a_wrong_peer_is_refused_in_one_sentence_and_nothing_is_written(
    lrq: Command, file: Path, peer: str, endpoint: str, words: str
) -> None:
    lrq("peer", "add", "tokyo", TOKYO)
    refused = lrq("peer", "add", peer, endpoint)
    assert refused.code in (1, 2)
    assert refused.error.startswith(words)
    assert listed(lrq) == {"tokyo": TOKYO}
    assert lrq("peer", "list", "--json").json["version"] == 2


def test_a_peer_that_is_not_there_cannot_be_removed(lrq: Command, file: Path) -> None:
    refused = lrq("peer", "remove", "tokyo")
    assert (refused.code, refused.error) == (3, "tokyo is no peer in the table: `lrq peer list` shows the peers")


def test_a_change_of_a_table_that_no_server_uses_is_warned_about(lrq: Command, file: Path) -> None:
    file.write_text(file.read_text().replace('"table"', '"file"'))
    added = lrq("peer", "add", "tokyo", TOKYO)
    assert (added.code, len(added.warnings)) == (0, 1)
    assert 'the settings here say "file"' in added.warnings[0]
    assert listed(lrq) == {}, "only the place that the setting names counts"
    file.write_text(file.read_text().replace('"file"', '"table"'))
    assert listed(lrq) == {"tokyo": TOKYO}


def test_an_empty_list_without_a_settings_file_tells_of_the_peers_in_the_table(
    lrq: Command, file: Path, site: Engine
) -> None:
    lrq("peer", "add", "tokyo", TOKYO)
    elsewhere = ("--database", site.url.render_as_string(hide_password=False))
    file.rename("other.toml")
    for arguments in (elsewhere, (*elsewhere, "--json")):
        done = lrq("peer", "list", *arguments)
        assert (done.code, done.warnings) == (
            0,
            [
                'the table lrq_peers has 1 peer, but the settings here say topology = "file": '
                'name a file with topology = "table" by --config, or set LRQ_TOPOLOGY=table'
            ],
        )
    assert lrq("peer", "list", "--config", "other.toml").warnings == []
    lrq("peer", "remove", "tokyo", "--config", "other.toml")
    assert lrq("peer", "list", *elsewhere).warnings == []


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_a_role_that_may_not_read_the_table_gets_an_empty_list_without_a_warning(
    lrq: Command, file: Path, site: Engine
) -> None:
    lrq("peer", "add", "tokyo", TOKYO)
    file.rename("other.toml")
    with roles.new_role(site) as role:
        grants.grant(site, role, Grantee.SUBSCRIBER)
        url = site.url.set(username=role, password="secret").render_as_string(hide_password=False)
        with site.begin() as connection:
            connection.execute(text(f"REVOKE ALL ON lrq_peers FROM {roles.quote(role)}"))
        done = lrq("peer", "list", "--database", url)
    assert (done.code, done.out, done.err) == (0, "paris has 0 peers in the settings\n", "")


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
@pytest.mark.parametrize("part", [Grantee.SENDER, Grantee.SUBSCRIBER])
def test_a_role_that_may_not_see_the_peers_is_told_which_roles_may(
    lrq: Command, file: Path, site: Engine, part: Grantee
) -> None:
    with roles.new_role(site) as role:
        grants.grant(site, role, part)
        url = site.url.set(username=role, password="secret").render_as_string(hide_password=False)
        done = lrq("peer", "list", "--config", str(file), "--database", url)
    words = "only the role of a server and the tables' owner see the peers: run `lrq peer list` as one of them"
    assert (done.code, done.error) == (1, words)


def test_lrq_topology_lists_the_table_without_a_settings_file(
    lrq: Command, file: Path, site: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    lrq("peer", "add", "tokyo", TOKYO)
    file.rename("other.toml")
    monkeypatch.setenv("LRQ_TOPOLOGY", "table")
    done = lrq("peer", "list", "--json", "--database", site.url.render_as_string(hide_password=False))
    assert ([each["site"] for each in done.json["peers"]], done.warnings) == (["tokyo"], [])


def test_file_and_table_may_disagree_and_the_setting_decides(lrq: Command, file: Path) -> None:
    lrq("peer", "add", "tokyo", TOKYO)
    file.write_text(file.read_text() + '[peers]\nlima = "tcp://10.0.0.9:7400"\n')
    assert listed(lrq) == {"tokyo": TOKYO}
    file.write_text(file.read_text().replace('"table"', '"file"'))
    assert listed(lrq) == {"lima": "tcp://10.0.0.9:7400"}


def test_a_name_that_looks_like_the_site_s_own_is_warned_about(lrq: Command, file: Path) -> None:
    added = lrq("peer", "add", "Paris", TOKYO)
    assert (added.code, ["look alike" in each for each in added.warnings]) == (0, [True])


@pytest.mark.parametrize("topology", ["table", "file"])
def test_a_peer_whose_link_has_ended_is_added_with_a_warning(lrq: Command, file: Path, topology: str) -> None:
    file.write_text(file.read_text().replace('"table"', f'"{topology}"'))
    lrq("link", "end", "tokyo", "--client", "policy")
    added = lrq("peer", "add", "tokyo", TOKYO)
    assert (added.code, added.warnings[0]) == (
        0,
        "the link of policy to tokyo has ended, so new entries are refused: `lrq link begin tokyo` accepts them again",
    )
    lrq("link", "end", "tokyo", "--client", "tenant")
    again = lrq("peer", "add", "tokyo", TOKYO)
    assert again.warnings[0].startswith(
        "the links of policy and tenant to tokyo have ended, so new entries are refused"
    )
    lrq("link", "begin", "tokyo")
    assert not any("ended" in each for each in lrq("peer", "add", "tokyo", TOKYO).warnings)


def test_a_peer_is_removed_with_a_warning_while_its_link_drains(lrq: Command, file: Path, site: Engine) -> None:
    lrq("peer", "add", "tokyo", TOKYO)
    lrq("link", "end", "tokyo", "--client", "policy")
    removed = lrq("peer", "remove", "tokyo")
    assert (removed.code, removed.out, removed.warnings) == (
        0,
        "tokyo is removed; version 3 of the peers\n",
        ["the link of policy to tokyo cannot finish without the peer: add tokyo again, and wait (`lrq link list`)"],
    )
    lrq("peer", "add", "tokyo", TOKYO)
    with writing(site) as connection:
        set_wish(connection, [SessionKey(ClientName("policy"), SiteId("tokyo"))], LinkWish.ENDED)
    assert lrq("peer", "remove", "tokyo").warnings == []


def test_the_list_names_the_servers_that_follow_other_peers(lrq: Command, file: Path, site: Engine) -> None:
    lrq("peer", "add", "tokyo", TOKYO)
    told = {
        "a:1:x": TopologyFacts("the table lrq_peers", 2),
        "b:2:x": TopologyFacts("the table lrq_peers", 1, "the database is away"),
        "c:3:x": TopologyFacts("the settings", 1),
    }
    for name, facts in told.items():
        servers.register(site, name, [], count=4, term=60, topology=facts)
    assert lrq("peer", "list").out.splitlines()[-3:] == [
        "  b pid 2 has its peers from the table lrq_peers, version 1",
        "  b pid 2 keeps its peers: the database is away",
        "  c pid 3 has its peers from the settings, version 1",
    ]


def test_a_provider_of_the_application_is_listed_and_its_error_is_one_sentence(lrq: Command, file: Path) -> None:
    Path("places_of_peers.py").write_text(
        "from lr_server import PeerList\n"
        "class Directory:\n    def read(self): return PeerList({'oslo': 'tcp://oslo:1'}, version=9)\n"
        "class Broken:\n    def read(self): raise RuntimeError('no token')\n"
    )
    file.write_text(file.read_text().replace('"table"', '"places_of_peers:Directory"'))
    assert listed(lrq) == {"oslo": "tcp://oslo:1"}
    file.write_text(file.read_text().replace("Directory", "Broken"))
    broken = lrq("peer", "list")
    words = "topology 'places_of_peers:Broken' cannot be read (RuntimeError: no token)"
    assert (broken.code, broken.error) == (1, words)
