"""Names of sites and clients that a site does not know are told, and refused with --strict."""

from pathlib import Path

import pytest
from sqlalchemy import delete

from lrq.cli.known_names import listed, unknown_names
from queues.browse.api import browse
from queues.database import grants
from queues.database.grantees import Grantee
from queues.database.tables.sessions import sessions
from queues.database.transactions import reading, writing
from queues.names import SEND_LOG_ENTRIES, SiteId
from queues.send_log.known_sites import KnownSites, record_known
from queues.send_snapshot import listing
from tests.lrq.cli.command import Command, Done
from tests.lrq.cli.source import SourceSite
from tests.system import roles


@pytest.fixture
def known(source: SourceSite) -> SourceSite:
    """Give a source that has a session of client policy to tokyo."""
    source.session("tokyo")
    return source


def size_of(source: SourceSite) -> tuple[int, int]:
    with reading(source.engine) as connection:
        return len(browse(source.engine, SEND_LOG_ENTRIES).entries), len(listing(connection, limit=10))


def about_names(done: Done) -> list[str]:
    """Return the warnings without that of a request for a snapshot, which no provider serves here."""
    return [each for each in done.warnings if not each.startswith("no provider of client")]


@pytest.mark.parametrize("command", [["send", "x", "--to"], ["snapshot", "request"], ["snapshot", "cancel"]])
def test_a_misspelt_site_is_told_with_the_right_name_and_refused_if_strict(
    lrq: Command, known: SourceSite, command: list[str]
):
    options = ["--client", "policy", "--database", known.url]
    refused = lrq(*command, "tokio", *options, "--strict")
    said = "site 'tokio' is not known here, because no peer and no session has that name: did you mean 'tokyo'?"
    assert (refused.code, refused.error) == (2, said)
    assert size_of(known) == (0, 0)
    told = lrq(*command, "tokio", *options)
    assert (told.code, about_names(told)) == (0, [said])
    assert about_names(lrq(*command, "tokyo", *options, "--strict")) == []


def test_a_drain_tells_a_misspelt_site_at_its_beginning(lrq: Command, known: SourceSite):
    said = "site 'tokio' is not known here, because no peer and no session has that name: did you mean 'tokyo'?"
    told = lrq("drain", "--timeout", "0", "--destination", "tokio", "--database", known.url)
    assert (told.code, about_names(told)) == (3, [said])
    assert lrq("drain", "--timeout", "0", "--destination", "tokio", "--strict", "--database", known.url).error == said


@pytest.mark.parametrize(
    "command",
    [
        ["send", "x", "--to", "tokyo"], ["snapshot", "request", "tokyo"], ["snapshot", "cancel", "tokyo"],
        ["snapshot", "list"], ["browse"], ["drain", "--timeout", "0"], ["park", "list"], ["park", "retry", "--all"],
        ["park", "discard", "--all"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_misspelt_client_is_told_and_refused_if_strict(lrq: Command, known: SourceSite, command: list[str]):
    said = "client 'polcy' is not known here, because no entry and no setting has that name: did you mean 'policy'?"
    options = [*command, "--client", "polcy", "--database", known.url]
    assert (lrq(*options, "--strict").code, lrq(*options, "--strict").error) == (2, said)
    assert about_names(lrq(*options)) == [said]


def test_the_end_of_a_link_to_a_misspelt_site_is_told_and_refused_if_strict(lrq: Command, known: SourceSite):
    said = "site 'tokio' is not known here, because no peer and no session has that name: did you mean 'tokyo'?"
    options = ["link", "end", "tokio", "--client", "policy", "--database", known.url]
    refused = lrq(*options, "--strict")
    assert (refused.code, refused.error) == (2, said)
    assert lrq("link", "list", "--json", "--database", known.url).json["links"][0]["destination"] == "tokyo"
    told = lrq(*options)
    assert (told.code, told.warnings) == (0, [said])
    assert lrq("link", "end", "tokyo", "--strict", "--database", known.url).err == ""


def test_peers_and_clients_of_the_file_are_known_names(lrq: Command, source: SourceSite, elsewhere: Path):
    Path("lrq.toml").write_text(
        f'site_id = "paris"\ndatabase_url = "{source.url}"\nclients = ["policy"]\n[peers]\nlima = "tcp://lima:7400"\n'
    )
    assert lrq("send", "x", "--to", "lima", "--client", "policy", "--strict").err == ""
    assert "site 'oslo' is not known here" in lrq("send", "x", "--to", "oslo", "--client", "policy", "--strict").error
    # The server sends nothing of a client that the setting leaves out, though its entries are here.
    source.transmit(b"x", to=["lima"], client="other")
    assert "client 'other' is not known" in lrq("send", "x", "--to", "lima", "--client", "other", "--strict").error


def test_the_peers_of_the_last_server_are_known_names(lrq: Command, source: SourceSite):
    with writing(source.engine) as connection:
        record_known(connection, KnownSites(frozenset({SiteId("lima")})))
    assert lrq("send", "x", "--to", "lima", "--client", "policy", "--database", source.url).warnings == []
    told = lrq("send", "x", "--to", "lina", "--client", "policy", "--database", source.url).warnings
    assert told == ["site 'lina' is not known here, because no peer and no session has that name: did you mean 'lima'?"]


def test_new_peers_and_groups_of_the_table_are_known_names_before_a_server_has_read_them(
    lrq: Command, source: SourceSite, elsewhere: Path
):
    with writing(source.engine) as connection:
        record_known(connection, KnownSites(frozenset({SiteId("oslo")})))
    Path("lrq.toml").write_text(f'site_id = "paris"\ndatabase_url = "{source.url}"\ntopology = "table"\n')
    assert lrq("peer", "add", "lima", "tcp://10.0.0.2:7400").code == 0
    assert lrq("replica", "add", "peru", "lima").code == 0
    for name in ("oslo", "lima", "peru"):
        assert lrq("send", "x", "--to", name, "--client", "policy").warnings == []
    assert "did you mean 'lima'?" in lrq("send", "x", "--to", "lina", "--client", "policy").warnings[0]
    # A table that the servers do not use has no known names.
    Path("lrq.toml").write_text(f'site_id = "paris"\ndatabase_url = "{source.url}"\n')
    assert len(lrq("send", "x", "--to", "lima", "--client", "policy").warnings) == 1


def test_no_site_is_told_before_the_first_server_has_worked(lrq: Command, source: SourceSite):
    options = ["send", "x", "--to", "tokyo", "--client", "policy", "--database", source.url]
    assert lrq(*options).warnings == []
    assert "site 'tokyo' is not known here" in lrq(*options, "--strict").error


def test_the_first_client_of_a_site_is_told_only_if_strict(lrq: Command, known: SourceSite, source: SourceSite):
    with writing(source.engine) as connection:
        connection.execute(delete(sessions))
        record_known(connection, KnownSites(frozenset({SiteId("tokyo")})))
    options = ["send", "x", "--to", "tokyo", "--client", "policy", "--database", source.url]
    assert "client 'policy' is not known here" in lrq(*options, "--strict").error
    assert lrq(*options).warnings == []


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_a_role_that_may_only_send_sends_without_a_warning_unless_strict(lrq: Command, known: SourceSite):
    with roles.new_role(known.engine) as role:
        grants.grant(known.engine, role, Grantee.SENDER)
        url = known.engine.url.set(username=role, password="secret").render_as_string(hide_password=False)
        send = "send", "x", "--to", "tokio", "--client", "policy", "--database", url
        done = lrq(*send)
        assert (done.code, done.err) == (0, "")
        refused = lrq(*send, "--strict")
        assert (refused.code, "run `lrq grant` as the tables' owner" in refused.error) == (1, True)


def test_the_names_of_a_setting_come_from_its_variable_before_the_file(monkeypatch: pytest.MonkeyPatch):
    written = {"peers": {"tokyo": "tcp://x:1"}, "clients": ["policy"]}
    assert (listed("peers", written), listed("clients", written)) == (["tokyo"], ["policy"])
    monkeypatch.setenv("LRQ_PEERS", '{"lima": "tcp://x:1"}')
    monkeypatch.setenv("LRQ_CLIENTS", "a, b")
    assert (listed("peers", written), listed("clients", written)) == (["lima"], ["a", "b"])
    monkeypatch.setenv("LRQ_PEERS", "{broken")
    assert listed("peers", written) == []


def test_each_unknown_name_is_told_once():
    assert len(unknown_names("site", ["oslo", "oslo", "tokyo"], ["tokyo"], "why")) == 1


def test_send_keeps_the_limit_of_the_site_s_file_and_of_the_variable(
    lrq: Command, known: SourceSite, monkeypatch: pytest.MonkeyPatch
):
    send = ["send", "12345678", "--to", "tokyo", "--client", "policy"]
    Path("lrq.toml").write_text(f'database_url = "{known.url}"\nmax_payload_bytes = 7\n')
    assert "the payload has 8 bytes, the limit is 7" in lrq(*send).error
    monkeypatch.setenv("LRQ_MAX_PAYLOAD_BYTES", "8")
    assert lrq(*send).code == 0
    monkeypatch.setenv("LRQ_MAX_PAYLOAD_BYTES", "many")
    assert lrq(*send).error == "max_payload_bytes must be a number of bytes"


def test_init_in_a_missing_folder_names_the_folder(lrq: Command, elsewhere: Path):
    done = lrq("init", "--site", "paris", "--database", "sqlite:///missing/paris.db")
    assert done.code == 1
    assert done.error.startswith(f"the folder {elsewhere}/missing of the database paris.db does not exist: create it")
    assert "no folder" in lrq("status", "--database", "sqlite:///missing/paris.db").error
