"""`lrq doctor` on sites that really are broken, and on two that are well."""

import re
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme
from sqlalchemy import Engine, text

import queues
from discovery.status import read_status
from lr_client.tables.following import follow_table
from lr_server import LogReplicationServer, Settings
from lrq.cli.doctor import peers
from lrq.cli.doctor.findings import Finding, Severity
from lrq.cli.doctor.view import line
from queues.database import grants
from queues.database.grantees import Grantee
from sink.transport.credentials import Credentials
from tests.certificates import issued
from tests.clusters import cluster, site_of
from tests.conftest import NewSite
from tests.lrq.cli.command import Command
from tests.system import roles
from tests.system.relay import Relay

SECRET = "open-sesame"


def url_of(engine: Engine) -> str:
    return engine.url.render_as_string(hide_password=False)


def write(file: str, engine: Engine, site: str, *lines: str, **peers: str) -> str:
    """Write a site's file; return its name."""
    named = [f'{peer} = "{endpoint}"' for peer, endpoint in peers.items()]
    written = [f'site_id = "{site}"', f'database_url = "{url_of(engine)}"', *lines, "[peers]", *named]
    Path(file).write_text("\n".join(written))
    return file


def tls_lines(credentials: Credentials) -> list[str]:
    files = {"certificate": credentials.certificate, "key": credentials.key, "authority": credentials.authority}
    return [f'tls_{name} = "{file}"' for name, file in files.items()]


class Examined:
    """The findings of one run."""

    def __init__(self, lrq: Command, *options: str) -> None:
        done = lrq("doctor", "--json", *options)
        self.code, self.all = done.code, done.json["findings"]
        assert done.json["ok"] == (done.code == 0)
        assert SECRET not in done.out + done.err

    def worst(self, check: str) -> dict[str, Any]:
        order = ("problem", "warning", "ok")
        return min((each for each in self.all if each["check"] == check), key=lambda each: order.index(each["level"]))

    def problem(self, check: str) -> str:
        """Return the problem of *check*, which must be the only problem, with its cure."""
        problems = [each for each in self.all if each["level"] == "problem"]
        assert [each["check"] for each in problems] == [check], problems
        assert self.code == 3
        assert problems[0]["cure"]
        return f"{problems[0]['sentence']}: {problems[0]['cure']}"


@pytest.fixture
def servers() -> Iterator[Callable[..., LogReplicationServer]]:
    with ExitStack() as stack:
        yield lambda engine, site, **options: stack.enter_context(
            LogReplicationServer(Settings(site_id=site, database_url=url_of(engine), **options))
        )


# --- well -----------------------------------------------------------------------------------------------------


def test_two_sites_that_are_well(lrq: Command, new_site: NewSite, servers: Any) -> None:
    paris, tokyo = new_site("paris"), new_site("tokyo")
    sink = servers(tokyo, "tokyo", listen=["tcp://127.0.0.1:0"])
    servers(paris, "paris", listen=[])
    found = Examined(lrq, "--config", write("paris.toml", paris, "paris", tokyo=sink.endpoints[0]))
    assert found.code == 0, found.all
    assert found.worst("peer tokyo")["sentence"] == f"site tokyo answers at {sink.endpoints[0]}"
    for check in ("configuration", "database", "tables", "ordering", "server", "libraries"):
        assert found.worst(check)["level"] == "ok", found.worst(check)
    with tokyo.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM lrq_receive_queues")).scalar() == 0
    lines = lrq("doctor", "--config", "paris.toml").out.splitlines()
    assert [each for each in lines if each.startswith("ok       tables: ")]
    assert " checks: " in lines[-1]
    shown = [
        line(Finding(each["check"], Severity(each["level"]), each["sentence"], each["cure"])) for each in found.all
    ]
    assert [*map(without_room, lines[:-1])] == [*map(without_room, shown)]


def without_room(line: str) -> str:
    """Return a line without the free room of a disk, which changes meanwhile."""
    return re.sub(r"room for \S+ \S+", "room", line)


def test_a_site_named_by_its_database_alone_is_well(lrq: Command, new_site: NewSite, servers: Any) -> None:
    paris = new_site("paris")
    servers(paris, "paris", listen=[])
    found = Examined(lrq, "--database", url_of(paris))
    assert found.code == 0, found.all
    assert found.worst("configuration")["sentence"].startswith("only the database is examined")


def test_a_site_named_by_the_variable_of_its_database_alone_is_well(
    lrq: Command, new_site: NewSite, servers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    paris = new_site("paris")
    servers(paris, "paris", listen=[])
    monkeypatch.setenv("LRQ_DATABASE_URL", url_of(paris))
    for options in ((), ("--database", url_of(paris))):
        found = Examined(lrq, *options)
        assert found.code == 0, found.all
        assert found.worst("configuration")["sentence"].startswith("only the database is examined")


@pytest.mark.parametrize("wrong", ["tokyo.db", "postgresql://app:secret@db.paris.example/app", "sqlite://"])
@pytest.mark.usefixtures("elsewhere")
def test_a_url_that_names_no_database_is_a_problem(lrq: Command, wrong: str) -> None:
    found = Examined(lrq, "--database", wrong)
    assert found.code == 3, found.all
    assert found.worst("configuration")["level"] == "problem"
    assert "secret" not in str(found.all)


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_a_site_with_a_schema_of_its_own_is_well(lrq: Command, new_database: Callable[[], str], servers: Any) -> None:
    engine = queues.create_engine(url := new_database(), schema="lrq")
    queues.initialize(engine, site_id="paris")
    servers(engine, "paris", listen=[])
    Path("paris.toml").write_text(f'site_id = "paris"\ndatabase_url = "{url}"\nschema = "lrq"\n')
    found = Examined(lrq, "--config", "paris.toml")
    engine.dispose()
    assert found.code == 0, found.all


# --- configuration --------------------------------------------------------------------------------------------


def test_a_missing_file_is_named(lrq: Command) -> None:
    assert "nowhere.toml cannot be read" in Examined(lrq, "--config", "nowhere.toml").problem("configuration")


def test_a_folder_without_a_file_leads_to_the_example(lrq: Command) -> None:
    found = Examined(lrq)
    assert (found.code, "lrq init --example" in found.all[1]["cure"]) == (3, True)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("site_id = ", "paris.toml is no TOML"),
        ('initial_sink = "log"', "did you mean 'initial_sync'?"),
        ('site_id = "paris"\npeers = "x"', "peers"),
    ],
)
def test_a_wrong_file_is_one_problem_and_the_database_is_checked_all_the_same(
    lrq: Command, site: Engine, content: str, words: str
) -> None:
    Path("paris.toml").write_text(content)
    found = Examined(lrq, "--config", "paris.toml", "--database", url_of(site), "--site", "paris")
    assert words in found.problem("configuration")
    assert ("ok" in [each["level"] for each in found.all if each["check"] == "tables"]) == ("TOML" not in words)


# --- database -------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_wrong_password_is_a_problem_without_the_password(lrq: Command) -> None:
    with cluster() as made:
        engine = site_of(made, "paris")
        with engine.begin() as connection:
            connection.execute(text("CREATE ROLE lrq LOGIN PASSWORD 'right'"))
        rules = "local all postgres trust\nlocal all all scram-sha-256\n"
        (made.folder / "pg_hba.conf").write_text(rules)
        made.reload(work_mem="4MB")
        url = engine.url.set(username="lrq", password=SECRET).render_as_string(hide_password=False)
        engine.dispose()
        said = Examined(lrq, "--database", url, "--site", "paris").problem("database")
    assert said.startswith('the server refuses the password of "lrq": correct the database URL')


def test_an_empty_database_asks_for_init(lrq: Command, new_database: Callable[[], str]) -> None:
    url = new_database()
    missing = url.startswith("sqlite")
    found = Examined(lrq, "--database", url, "--site", "paris")
    assert "run `lrq init`" in found.problem("database" if missing else "tables")


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_tables_in_a_schema_that_no_setting_names_ask_for_the_setting_and_init_makes_no_others(
    lrq: Command, new_database: Callable[[], str]
) -> None:
    engine = queues.create_engine(url := new_database(), schema="lrq")
    queues.initialize(engine, site_id="paris")
    engine.dispose()
    words = "lrq's tables are in schema 'lrq', which this connection does not see: set `schema`"
    assert Examined(lrq, "--database", url, "--site", "paris").problem("tables").startswith(words)
    done = lrq("init", "--database", url, "--site", "paris")
    assert (done.code, done.error.startswith(words)) == (1, True)


def test_an_old_schema_asks_for_init(lrq: Command, site: Engine) -> None:
    with site.begin() as connection:
        connection.execute(text("UPDATE lrq_alembic_version SET version_num = '0011'"))
    said = Examined(lrq, "--database", url_of(site), "--site", "paris").problem("tables")
    assert said.startswith("the tables have schema 0011, this lrq needs")


def test_a_lost_table_is_named(lrq: Command, site: Engine) -> None:
    with site.begin() as connection:
        connection.execute(text("DROP TABLE lrq_strangers"))
    found = Examined(lrq, "--database", url_of(site), "--site", "paris")
    assert "lacks table lrq_strangers" in found.problem("tables")


def test_the_database_of_another_site_is_named(lrq: Command, site: Engine) -> None:
    said = Examined(lrq, "--database", url_of(site), "--site", "tokyo").problem("tables")
    assert said.startswith("the database belongs to site 'paris', not to 'tokyo'")


@pytest.mark.postgresql
def test_a_database_without_characters_is_told(lrq: Command, ascii_database: str) -> None:
    assert "create it with ENCODING 'UTF8'" in Examined(lrq, "--database", ascii_database).problem("database")


def test_a_file_of_an_application_asks_for_init(lrq: Command, tmp_path: Path) -> None:
    file = tmp_path / "app.db"
    file.touch()
    found = Examined(lrq, "--database", f"sqlite:///{file}", "--site", "paris")
    assert found.problem("tables").startswith("the database has no lrq tables")


def test_a_file_outside_wal_mode_gives_a_warning_and_stays_as_it_is(lrq: Command, tmp_path: Path) -> None:
    import sqlite3

    file = tmp_path / "app.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE t (x)")
    found = Examined(lrq, "--database", f"sqlite:///{file}", "--site", "paris")
    assert found.worst("sqlite")["sentence"].startswith("the file is in the mode delete")
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_the_connections_of_the_site_are_counted_by_its_settings(lrq: Command, site: Engine) -> None:
    if site.dialect.name == "sqlite":
        pytest.skip("SQLite has no connections to count")

    def worst(most: int) -> str:
        Path("paris.toml").write_text(f'site_id = "paris"\nmax_connections = {most}\n')
        found = Examined(lrq, "--config", "paris.toml", "--database", url_of(site))
        return str(found.worst("postgresql")["sentence"])

    assert "is supported" in worst(9)
    assert "a server of this site opens up to 1000000" in worst(1_000_000)


def test_a_trigger_that_is_off_is_told_with_its_cure(lrq: Command, site: Engine) -> None:
    if site.dialect.name == "sqlite":
        pytest.skip("SQLite needs no trigger")
    with site.begin() as connection:
        connection.execute(text("ALTER TABLE lrq_log_entries DISABLE TRIGGER ALL"))
    found = Examined(lrq, "--database", url_of(site), "--site", "paris")
    assert "ENABLE ALWAYS TRIGGER lrq_sequence_commit" in found.problem("ordering")


def test_a_trigger_of_the_helper_table_that_is_off_is_told_with_its_cure(lrq: Command, site: Engine) -> None:
    if site.dialect.name == "sqlite":
        pytest.skip("SQLite needs no trigger")
    with site.begin() as connection:
        connection.execute(text("ALTER TABLE lrq_waiting_places DISABLE TRIGGER ALL"))
        connection.execute(text("ALTER TABLE lrq_waiting_places ENABLE TRIGGER ALL"))
    cure = "ALTER TABLE lrq_waiting_places ENABLE ALWAYS TRIGGER lrq_sequence_commit"
    assert cure in Examined(lrq, "--database", url_of(site), "--site", "paris").problem("ordering")
    assert lrq("status", "--json", "--database", url_of(site)).json["log"]["untriggered"] == ["lrq_waiting_places"]
    with site.begin() as connection:
        connection.execute(text(cure))
    assert read_status(site).log.ordering.untriggered == ()


def test_a_table_that_a_crash_empties_is_told_with_its_cure(lrq: Command, site: Engine) -> None:
    if site.dialect.name == "sqlite":
        pytest.skip("SQLite has no unlogged tables")
    with site.begin() as connection:
        connection.execute(text("ALTER TABLE lrq_log_entries_3 SET UNLOGGED"))
        connection.execute(text("ALTER TABLE lrq_receive_marks SET UNLOGGED"))
    found = Examined(lrq, "--database", url_of(site), "--site", "paris")
    assert found.problem("durability").endswith("ALTER TABLE lrq_log_entries_3 SET LOGGED, the same for the others")
    told = lrq("status", "--json", "--database", url_of(site)).json["log"]["unlogged"]
    assert told == ["lrq_log_entries_3", "lrq_receive_marks"]


def test_a_sequence_that_a_crash_sets_back_is_told_with_its_cure(lrq: Command, site: Engine) -> None:
    if site.dialect.name == "sqlite":
        pytest.skip("SQLite has no unlogged sequences")
    with site.begin() as connection:
        if (connection.dialect.server_version_info or ()) < (15,):
            pytest.skip("a sequence of PostgreSQL 14 is always logged")
        connection.execute(text("ALTER SEQUENCE lrq_log_segment SET UNLOGGED"))
    found = Examined(lrq, "--database", url_of(site), "--site", "paris")
    cure = "ALTER TABLE lrq_log_segment SET LOGGED"
    assert cure in found.problem("durability")
    with site.begin() as connection:
        connection.execute(text(cure))
    assert "durability" not in lrq("doctor", "--database", url_of(site), "--site", "paris").out


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_a_limit_on_resting_connections_is_told(lrq: Command, site: Engine) -> None:
    url = site.url.update_query_dict({"options": "-c idle_session_timeout=90s"}).render_as_string(hide_password=False)
    found = Examined(lrq, "--database", url, "--site", "paris")
    assert "rests for 1m 30s (idle_session_timeout)" in found.worst("postgresql")["sentence"]


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_a_followed_table_with_other_columns_is_told(lrq: Command, site: Engine) -> None:
    with site.begin() as connection:
        connection.execute(text("CREATE TABLE orders (id INTEGER)"))
        follow_table(connection, "orders", client="shop", destinations=["tokyo"])
        connection.execute(text("ALTER TABLE orders ADD COLUMN name TEXT"))
    found = Examined(lrq, "--database", url_of(site), "--site", "paris").worst("followed tables")
    assert (found["level"], found["sentence"]) == (
        "problem", "the columns of orders have changed since client shop follows it, so each change of a row fails",
    )  # fmt: skip


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_a_followed_table_whose_rows_may_travel_back_is_told(lrq: Command, site: Engine) -> None:
    def found(*statements: str) -> dict[str, Any]:
        with site.begin() as connection:
            for statement in statements:
                connection.execute(text(statement))
        return Examined(lrq, "--database", url_of(site), "--site", "paris").worst("followed tables")

    follow = "SELECT lrq_follow('orders', client => 'policy', destinations => ARRAY['tokyo', 'lima'], origin => '{}')"
    by_column = "SELECT lrq_follow('orders', client => 'audit', destinations_column => 'branch')"
    columns = "name, client, source, tag, registered_us"
    receives = f"INSERT INTO lrq_receive_queues ({columns}) VALUES ('{{0}}{{1}}', '{{0}}', '{{1}}', '', 0)"
    fine = found("CREATE TABLE orders (id int, branch text)", follow.format("any"), receives.format("policy", "oslo"))
    assert (fine["level"], fine["sentence"]) == ("ok", "1 table is followed")
    back = found(receives.format("policy", "tokyo"))
    assert (back["level"], back["sentence"]) == (
        "warning",
        "client policy follows public.orders and is received from tokyo, so rows that its listener writes to the "
        "table are sent back",
    )
    assert found(follow.format("other"))["level"] == "ok"
    assert "is received from lima" in found(by_column, receives.format("audit", "lima"))["sentence"]


@pytest.mark.parametrize("kind", ["trigger", "rule", "view"])
def test_triggers_rules_and_views_of_others_that_may_leave_out_rows_are_told(
    lrq: Command, site: Engine, kind: str
) -> None:
    is_sqlite = site.dialect.name == "sqlite"
    if is_sqlite and kind == "rule":
        pytest.skip("SQLite has no rules")
    function = "CREATE FUNCTION mine() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$"
    kinds = {
        "trigger": [function, "CREATE TRIGGER mine BEFORE INSERT ON {} FOR EACH ROW EXECUTE FUNCTION mine()"],
        "rule": ["CREATE RULE mine AS ON INSERT TO {} DO INSTEAD NOTHING"],
    }
    kinds["view"] = ["ALTER TABLE {} RENAME TO mine", "CREATE VIEW {} AS SELECT * FROM mine"]
    if is_sqlite:
        kinds["trigger"] = ["CREATE TRIGGER mine BEFORE INSERT ON {} BEGIN SELECT RAISE(IGNORE); END"]
    made = kinds[kind]
    body = "BEGIN SELECT 1; END" if is_sqlite else "EXECUTE FUNCTION tsvector_update_trigger('a', 'b')"
    after = f"CREATE TRIGGER audit AFTER INSERT ON lrq_receive_headers {body}"
    assert read_status(site).log.altering == ()
    with site.begin() as connection:
        for statement in (*made, after):
            connection.exec_driver_sql(statement.format("lrq_receive_blocks"))
    found = Examined(lrq, "--database", url_of(site), "--site", "paris")
    assert "change rows of lrq_receive_blocks, so entries may be lost" in found.problem("triggers")
    assert lrq("status", "--json", "--database", url_of(site)).json["log"]["altering"] == ["lrq_receive_blocks"]


def test_functions_that_stay_with_an_earlier_owner_are_told_with_the_cure(lrq: Command, site: Engine) -> None:
    if site.dialect.name == "sqlite":
        pytest.skip("SQLite has no owners")
    with roles.new_role(site) as role:
        with site.begin() as connection:
            owner = connection.execute(text("SELECT current_user")).scalar_one()
            connection.execute(text(f"ALTER FUNCTION lrq_take_place OWNER TO {roles.quote(role)}"))
        told = Examined(lrq, "--database", url_of(site), "--site", "paris").problem("functions")
        assert "lrq_take_place run without the rights" in told
        assert "ALTER FUNCTION lrq_take_place OWNER TO" in told
        with site.begin() as connection:
            connection.execute(text(f"ALTER FUNCTION lrq_take_place OWNER TO {roles.quote(owner)}"))


def test_tables_whose_rows_are_hidden_from_the_role_are_told_with_the_cure(lrq: Command, site: Engine) -> None:
    if site.dialect.name == "sqlite":
        pytest.skip("SQLite hides no rows")
    with roles.new_role(site) as role, roles.engine_of(site, role) as engine:
        grants.grant(site, role, Grantee.SERVER)
        with site.begin() as connection:
            connection.execute(text("ALTER TABLE lrq_receive_marks ENABLE ROW LEVEL SECURITY"))
        found = Examined(lrq, "--database", url_of(engine), "--site", "paris")
        assert "hides rows of lrq_receive_marks from this role" in found.problem("row level security")
        assert read_status(engine).log.hiding == ("lrq_receive_marks",)
        refused = lrq("status", "--database", url_of(engine))
        assert refused.code == 1
        assert "row level security hides rows from the database role" in refused.err
        assert read_status(site).log.hiding == ()


# --- peers ----------------------------------------------------------------------------------------------------


def test_a_dead_peer_is_told(lrq: Command, site: Engine) -> None:
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening
        endpoint = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        found = Examined(lrq, "--config", write("paris.toml", site, "paris", tokyo=endpoint))
    assert f"{endpoint} cannot be reached" in found.problem("peer tokyo")
    assert found.problem("peer tokyo").endswith("start its server, open its port, or correct `peers`")


def test_a_site_that_is_attached_to_its_source(lrq: Command, new_site: NewSite, servers: Any) -> None:
    paris, tokyo = new_site("paris"), new_site("tokyo")
    source = servers(paris, "paris", listen=["tcp://127.0.0.1:0"], peers={"tokyo": "attached:tokyo"})
    [endpoint] = source.endpoints
    config = write("tokyo.toml", tokyo, "tokyo", "[attach]", f'paris = "{endpoint}"')
    assert Examined(lrq, "--config", config).worst("attach paris")["sentence"] == f"site paris answers at {endpoint}"
    config = write("paris.toml", paris, "paris", f'listen = ["{endpoint}"]', tokyo="attached:tokyo")
    words = "tokyo attaches itself to the servers of this site; `lrq status` tells whether it has"
    assert Examined(lrq, "--config", config).worst("peer tokyo")["sentence"] == words


def test_a_dead_source_of_an_attached_site_is_told(lrq: Command, site: Engine) -> None:
    config = write("paris.toml", site, "paris", "[attach]", 'lima = "ipc:///nowhere/lima.sock"')
    words = "start its server, open its port, or correct `attach`"
    assert Examined(lrq, "--config", config).problem("attach lima").endswith(words)


def test_a_line_that_loses_large_packets_is_told(
    lrq: Command, new_site: NewSite, servers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "LARGE_PATIENCE", 1.0)
    tokyo = servers(new_site("tokyo"), "tokyo", listen=["tcp://127.0.0.1:0"])
    with closing(Relay(tokyo.endpoints[0])) as relay:
        # The second connection carries the large question.
        relay.held_after[1] = 4_000
        config = write("paris.toml", new_site("paris"), "paris", tokyo=relay.endpoint)
        said = Examined(lrq, "--config", config).problem("peer tokyo")
    assert said.startswith(f"small packets reach {relay.endpoint}, and large ones get no answer: let ICMP pass")


@pytest.mark.parametrize("host", ["nowhere.invalid", "tokyo..invalid"])
def test_a_host_that_has_no_address_is_told(lrq: Command, site: Engine, host: str) -> None:
    found = Examined(lrq, "--config", write("paris.toml", site, "paris", tokyo=f"tcp://{host}:7400"))
    assert f"the host {host!r} is unknown" in found.problem("peer tokyo")


def test_the_wrong_site_behind_an_endpoint_is_told(lrq: Command, new_site: NewSite, servers: Any) -> None:
    lima = servers(new_site("lima"), "lima", listen=["tcp://127.0.0.1:0"])
    config = write("paris.toml", new_site("paris"), "paris", tokyo=lima.endpoints[0])
    said = Examined(lrq, "--config", config).problem("peer tokyo")
    assert said.startswith(f"site 'lima' answers at {lima.endpoints[0]}: correct `peers`")


# --- TLS ------------------------------------------------------------------------------------------------------


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


def folder(parent: Path, name: str) -> Path:
    (parent / name).mkdir()
    return parent / name


def test_certificates_that_end_soon_give_warnings_on_both_sides(
    lrq: Command, new_site: NewSite, servers: Any, authority: trustme.CA, tmp_path: Path
) -> None:
    soon = datetime.now(UTC) + timedelta(days=10)  # noqa: TID251
    at_tokyo = issued(authority, folder(tmp_path, "tokyo"), not_after=soon)
    at_paris = issued(authority, folder(tmp_path, "paris"), not_after=soon)
    files = {"tls_certificate": at_tokyo.certificate, "tls_key": at_tokyo.key, "tls_authority": at_tokyo.authority}
    sink = servers(new_site("tokyo"), "tokyo", listen=["tls://127.0.0.1:0"], **files)
    config = write("paris.toml", new_site("paris"), "paris", *tls_lines(at_paris), tokyo=sink.endpoints[0])
    found = Examined(lrq, "--config", config)
    assert found.code == 0, found.all
    for check, name in (("tls", "site.pem"), ("peer tokyo", "the certificate of tls://127.0.0.1")):
        worst = found.worst(check)
        assert (worst["level"], worst["sentence"].endswith("for 9 more days")) == ("warning", True)
        assert name in worst["sentence"]


def test_an_ended_certificate_of_a_peer_is_a_problem(
    lrq: Command, new_site: NewSite, servers: Any, authority: trustme.CA, tmp_path: Path
) -> None:
    ended = datetime.now(UTC) - timedelta(days=1)  # noqa: TID251
    at_tokyo = issued(authority, folder(tmp_path, "tokyo"), not_after=ended)
    at_paris = issued(authority, folder(tmp_path, "paris"))
    files = {"tls_certificate": at_tokyo.certificate, "tls_key": at_tokyo.key, "tls_authority": at_tokyo.authority}
    sink = servers(new_site("tokyo"), "tokyo", listen=["tls://127.0.0.1:0"], **files)
    config = write("paris.toml", new_site("paris"), "paris", *tls_lines(at_paris), tokyo=sink.endpoints[0])
    found = Examined(lrq, "--config", config)
    said = [each["sentence"] for each in found.all if each["level"] == "problem"]
    assert found.code == 3
    assert any("not valid now by the clock" in each for each in said)
    assert any("was valid until" in each for each in said)
    (cure,) = [each["cure"] for each in found.all if "not valid now by the clock" in each["sentence"]]
    assert cure == "docs/tls.md tells how to issue and renew certificates"


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda files, other: files.key.unlink(), "site.key cannot be read"),
        (lambda files, other: files.key.write_bytes(other.key.read_bytes()), "site.key is not the key of"),
        (lambda files, other: files.key.write_text("no key"), "or {key} no key in PEM"),
    ],
)
def test_an_unusable_file_of_this_site_is_a_problem(
    lrq: Command, site: Engine, authority: trustme.CA, tmp_path: Path, spoil: Any, words: str
) -> None:
    own, other = (issued(authority, folder(tmp_path, name)) for name in ("own", "other"))
    spoil(own, other)
    found = Examined(lrq, "--config", write("paris.toml", site, "paris", *tls_lines(own)))
    assert words.format(key=own.key) in found.problem("tls")
    (cure,) = [each["cure"] for each in found.all if each["check"] == "tls" and each["level"] == "problem"]
    assert cure != "look at the words of this error"


def test_an_own_certificate_that_has_ended_is_a_problem(
    lrq: Command, site: Engine, authority: trustme.CA, tmp_path: Path
) -> None:
    ended = datetime.now(UTC) - timedelta(days=1)  # noqa: TID251
    own = issued(authority, tmp_path, not_after=ended)
    said = Examined(lrq, "--config", write("paris.toml", site, "paris", *tls_lines(own))).problem("tls")
    assert "site.pem was valid until" in said
