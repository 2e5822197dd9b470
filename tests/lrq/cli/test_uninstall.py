"""`lrq uninstall` and `lrq init --sql`: the tables go, the application's stay, and a DBA gets the SQL."""

import io
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Engine, inspect, make_url, text

import queues
from discovery.server_status import SERVER_LEASE
from discovery.session_status import Lag
from lr_client import RoutingQueueSenderClient
from lrq.cli import removal
from queues.database import leases, migrations
from queues.database.schema import SCHEMA
from queues.states import SessionState
from tests.discovery.statuses import a_log, a_queue, a_session, a_site
from tests.lrq.cli.command import Command


@pytest.fixture
def url(site: Engine) -> str:
    with site.begin() as connection:
        connection.execute(text("CREATE TABLE rules (id INTEGER PRIMARY KEY)"))
    return site.url.render_as_string(hide_password=False)


def tables_in(engine: Engine) -> set[str]:
    with engine.connect() as connection:
        return set(inspect(connection).get_table_names())


def test_uninstall_removes_the_tables_and_leaves_the_applications(lrq: Command, url: str, site: Engine):
    done = lrq("uninstall", "--yes", "--database", url)
    assert (done.code, "everything of lrq is removed" in done.out) == (0, True)
    assert tables_in(site) == {"rules"}
    assert "run `lrq init`" in lrq("uninstall", "--yes", "--database", url).error


def lrq_shown(url: str) -> str:
    return make_url(url).set(query={}).render_as_string(hide_password=True)


def test_uninstall_asks_first(lrq: Command, url: str, site: Engine, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    done = lrq("uninstall", "--database", url)
    assert (done.code, "nothing was removed" in done.err) == (3, True)
    assert f"Remove all tables of lrq from {lrq_shown(url)}" in done.err
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert lrq("uninstall", "--database", url, "--json").json["removed"] is True
    assert tables_in(site) == {"rules"}


def test_uninstall_refuses_beside_a_server(lrq: Command, url: str, site: Engine):
    leases.acquire(site, SERVER_LEASE, "elsewhere:7:x", 60)
    done = lrq("uninstall", "--yes", "--database", url)
    assert (done.code, "elsewhere pid 7 works for this site: stop that server, or say --force" in done.error) == (
        3,
        True,
    )
    assert lrq("uninstall", "--yes", "--force", "--database", url).code == 0


def test_uninstall_refuses_while_entries_are_undelivered(lrq: Command, site: Engine):
    url = site.url.render_as_string(hide_password=False)
    with site.begin() as connection:
        RoutingQueueSenderClient("policy").transmit_log_entry_message(connection, b"1", ["tokyo"])
    done = lrq("uninstall", "--yes", "--database", url)
    assert done.code == 3
    assert "not sent yet: run `lrq serve`, then `lrq drain`, or say --force" in done.error
    assert lrq("uninstall", "--yes", "--force", "--database", url).code == 0


def test_uninstall_refuses_the_database_of_another_site(lrq: Command, url: str, site: Engine):
    assert "belongs to site 'paris'" in lrq("uninstall", "--yes", "--database", url, "--site", "tokyo").error
    assert "rules" in tables_in(site)
    assert len(tables_in(site)) > 1


def apply(url: str, sql: str, dialect: str) -> None:
    engine = queues.create_engine(make_url(url).difference_update_query(["lrq_schema"]))
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        driver = connection.connection.driver_connection
        (driver.executescript if dialect == "sqlite" else driver.execute)(sql)
    engine.dispose()


@pytest.mark.parametrize("transactional", [False, True])
def test_a_dba_installs_migrates_and_removes_with_printed_sql(
    lrq: Command, new_database: Callable[[], str], dialect: str, transactional: bool
):
    url = new_database()
    options = ["--sql", "--database", url, *["--transactional"] * transactional]
    made = lrq("init", *options).out
    assert ("\nCOMMIT" in made) == ("BEGIN;" in made) == transactional
    apply(url, made, dialect)
    lrq("init", "--database", url, "--site", "paris")
    engine = queues.create_engine(url)
    assert migrations.check(engine).site_id == "paris"
    with engine.begin() as connection:
        queues.downgrade(connection, revision="0010")
    apply(url, lrq("init", *options, "--from", "0010").out, dialect)
    assert migrations.check(engine).site_id == "paris"
    removal = lrq("uninstall", *options).out
    assert ("BEGIN;" in removal) == transactional
    apply(url, removal, dialect)
    assert tables_in(engine) == set()
    engine.dispose()


def test_options_of_sql_go_with_sql_and_an_unknown_revision_is_refused(lrq: Command, new_database: Callable[[], str]):
    url = new_database()
    for options in (["--from", "0011"], ["--transactional"], ["--dialect", "sqlite"]):
        assert lrq("init", "--database", url, "--site", "paris", *options).code == 2
    assert lrq("uninstall", "--database", url, "--transactional").code == 2
    assert "cannot go to 'head'" in lrq("init", "--sql", "--database", url, "--from", "4711").error
    assert f"'{SCHEMA}'" in lrq("init", "--sql", "--database", url, "--from", "0011").out


def test_a_site_with_a_schema_of_its_own_is_found_by_every_command(
    lrq: Command, new_database: Callable[[], str], dialect: str, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
):
    url = new_database()
    (elsewhere / "lrq.toml").write_text(f'site_id = "paris"\ndatabase_url = "{url}"\nschema = "lrq"\n')
    if dialect == "sqlite":
        assert lrq("init").error == "SQLite has no schemas: remove `schema`"
        return
    assert lrq("init").code == 0
    assert lrq("init", "--check").code == 0
    for command in (["status"], ["browse"], ["trim"], ["fence", "list"], ["link", "list"], ["park", "list"]):
        assert lrq(*command).code in (0, 2), command
    assert 'CREATE SCHEMA IF NOT EXISTS "lrq"' in lrq("init", "--sql").out
    monkeypatch.setenv("LRQ_SCHEMA", "other")
    assert lrq("status").error.startswith("lrq's tables are in schema 'lrq', which this connection does not see")
    monkeypatch.delenv("LRQ_SCHEMA")
    engine = queues.create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE lrq.of_another (id INTEGER)"))
    assert lrq("uninstall", "--yes").code == 0
    with engine.connect() as connection:
        assert inspect(connection).get_table_names(schema="lrq") == ["of_another"]
    engine.dispose()


def test_each_queue_with_entries_is_a_reason_against_a_removal():
    behind = Lag(entries=2)
    sessions = (a_session(), a_session(lag=behind), a_session(lag=behind, state=SessionState.INACTIVE))
    status = a_site(log=a_log(waiting=1), sessions=sessions, receive_queues=(a_queue(), a_queue(outstanding=1)))
    assert removal.undelivered(status) == [
        "1 entry is not sent yet: run `lrq serve`, then `lrq drain`",
        "2 entries are undelivered to tokyo (policy): run `lrq drain`",
        "1 entry is received from lima (policy) and not applied: wait for the subscriber",
    ]
    assert removal.undelivered(a_site()) == []
