"""The migrations equal the metadata and go up and down; `initialize` may run twice, at once, and on any engine."""

import contextlib
import io
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Engine, create_engine, create_mock_engine, event, insert, inspect, make_url, select, text

import queues
from discovery.status import read_status
from queues.database import dialects, migrations, schema, tables
from queues.database.transactions import is_lock_timeout, mapped_errors
from queues.errors import (
    ConfigurationError,
    InvalidNameError,
    NotInitializedError,
    SchemaMismatchError,
    StoreUnavailableError,
    WrongSiteError,
)
from tests.queues.unordered import migrate_to, triggered
from tests.waiting import eventually

NewDatabase = Callable[[], str]


@pytest.fixture
def engine(new_database: NewDatabase):
    made = queues.create_engine(new_database())
    yield made
    made.dispose()


def names(engine: Engine) -> set[str]:
    with engine.connect() as connection:
        return set(inspect(connection).get_table_names())


def own_metadata(engine: Engine):
    return tables.sqlite_metadata if engine.dialect.name == "sqlite" else tables.postgresql_metadata


def is_ours(name, kind, parents) -> bool:
    partition = name is not None and name[:-1] in ("lrq_log_entries_", "lrq_log_commits_", "lrq_ticks_")
    return kind != "table" or not partition


def test_the_migrations_equal_the_metadata(site: Engine):
    options = {
        "version_table": schema.VERSION_TABLE,
        "compare_server_default": True,
        "include_name": is_ours if site.dialect.name == "postgresql" else None,
    }
    with site.connect() as connection:
        context = MigrationContext.configure(connection, opts=options)
        differences = compare_metadata(context, [tables.metadata, own_metadata(site)])
    assert differences == []


def test_a_column_that_no_migration_makes_is_noticed(site: Engine):
    with site.connect() as connection:
        connection.execute(text("ALTER TABLE lrq_leases ADD COLUMN forgotten INTEGER"))
        context = MigrationContext.configure(connection, opts={"version_table": schema.VERSION_TABLE})
        differences = compare_metadata(context, [tables.metadata, own_metadata(site)])
        assert "forgotten" in str(differences)


def test_the_newest_migration_is_the_schema_that_the_code_names():
    from alembic.script import ScriptDirectory

    assert ScriptDirectory.from_config(migrations.config()).get_heads() == [schema.SCHEMA]


def test_a_downgrade_leaves_no_object_of_lrq(site: Engine):
    with site.begin() as connection:
        config = migrations.config()
        config.attributes["connection"] = connection
        command.downgrade(config, "base")
    assert names(site) == {schema.VERSION_TABLE}
    if site.dialect.name == "postgresql":
        left = text(
            "SELECT proname FROM pg_proc WHERE proname LIKE 'lrq%' UNION ALL "
            "SELECT relname FROM pg_class WHERE relname LIKE 'lrq%' AND relname NOT LIKE 'lrq_alembic_version%'"
        )
        with site.connect() as connection:
            assert connection.execute(left).all() == []


def test_a_database_can_go_down_and_up_again(site: Engine):
    with site.begin() as connection:
        config = migrations.config()
        config.attributes["connection"] = connection
        command.downgrade(config, "base")
    queues.initialize(site, site_id="paris")
    assert migrations.check(site, site_id="paris").site_id == "paris"


def test_initialising_twice_changes_nothing(engine: Engine):
    first = queues.initialize(engine, site_id="paris")
    assert queues.initialize(engine, site_id="paris") == first


def test_a_new_site_begins_with_one_branch_and_an_empty_log(site: Engine):
    with site.connect() as connection:
        branch = connection.execute(select(tables.site.branches)).one()
        head = connection.execute(select(tables.log.log_head)).one()
        assert (branch.number, branch.start_seq) == (1, 0)
        assert branch.incarnation == dialects.of(connection).incarnation(connection)
        assert (head.slot, head.last_id, head.segment, head.trimmed_seq) == (0, 0, 0, 0)
    assert migrations.require(site).branch == branch.branch


def test_two_sites_begin_with_different_branches(new_site):
    assert migrations.require(new_site("paris")).branch != migrations.require(new_site("paris")).branch


def test_the_database_of_another_site_is_refused_and_the_site_is_named(site: Engine):
    with pytest.raises(WrongSiteError, match="belongs to site 'paris', not to 'tokyo'"):
        queues.initialize(site, site_id="tokyo")
    with pytest.raises(WrongSiteError, match="'paris'"):
        migrations.require(site, site_id="tokyo")


def test_a_malformed_site_id_creates_no_table(engine: Engine):
    with pytest.raises(InvalidNameError):
        queues.initialize(engine, site_id="no/slash")
    assert names(engine) == set()


def make_newer(site: Engine, *, oldest: str) -> None:
    """Let the tables look like those of a later lrq, which versions of schema *oldest* can still use."""
    with site.begin() as connection:
        connection.execute(text(f"UPDATE {schema.VERSION_TABLE} SET version_num = '9999'"))
        connection.execute(text("UPDATE lrq_site SET oldest_schema = :oldest"), {"oldest": oldest})


def test_a_newer_schema_that_has_taken_anything_away_is_refused(site: Engine):
    make_newer(site, oldest="9998")
    for attempt in (lambda: queues.initialize(site, site_id="paris"), lambda: migrations.require(site)):
        with pytest.raises(SchemaMismatchError, match=r"newer than this lrq's .* upgrade lrq"):
            attempt()


def test_a_newer_schema_that_has_only_added_fits(site: Engine):
    make_newer(site, oldest=schema.SCHEMA)
    assert queues.initialize(site, site_id="paris").site_id == migrations.check(site).site_id == "paris"


def test_a_migration_that_waits_for_a_lock_lets_other_transactions_pass(site: Engine, dialect: str):
    if dialect == "sqlite":
        pytest.skip("on SQLite a migration is a short transaction like all others")
    migrate_to(site, "0002")
    waiting = text(
        "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation::regclass::text LIKE 'lrq_log_entries%'"
    )
    write = text("LOCK TABLE lrq_log_entries IN ROW EXCLUSIVE MODE")
    with site.connect() as holder, site.connect() as other, ThreadPoolExecutor(1) as threads:
        holder.execute(write)
        migration = threads.submit(queues.initialize, site, site_id="paris")

        def is_waiting() -> int:
            with site.connect() as observer:
                return observer.execute(waiting).scalar_one()

        eventually(is_waiting)
        other.execute(write)
        assert not migration.done()
        other.rollback()
        holder.rollback()
        assert migration.result().site_id == "paris"
    assert migrations.check(site).site_id == "paris"


def test_an_older_schema_is_refused_with_the_command_that_migrates_it(site: Engine):
    with site.begin() as connection:
        config = migrations.config()
        config.attributes["connection"] = connection
        command.downgrade(config, "0001")
    with pytest.raises(SchemaMismatchError, match="run `lrq init`"):
        migrations.require(site)
    queues.initialize(site, site_id="paris")
    migrations.check(site)


def test_the_error_for_an_empty_database_names_the_command_to_run(engine: Engine):
    with pytest.raises(NotInitializedError, match="run `lrq init`"):
        migrations.require(engine)


def test_the_error_for_a_renamed_table_names_the_command_that_tells_it(site: Engine):
    with site.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE lrq_sessions RENAME TO my_sessions")
    with pytest.raises(NotInitializedError, match=r"lrq_sessions.*`lrq doctor` names those that are missing"):
        read_status(site)


def test_check_names_missing_tables_and_columns(site: Engine):
    with site.begin() as connection:
        connection.execute(text("DROP TABLE lrq_parked_entries"))
        connection.execute(text("ALTER TABLE lrq_leases DROP COLUMN owner"))
    with pytest.raises(SchemaMismatchError, match=r"column lrq_leases.owner.*table lrq_parked_entries"):
        migrations.check(site)


def test_simultaneous_calls_of_initialize_agree_on_one_branch(new_database: NewDatabase):
    url = new_database()
    start = threading.Barrier(6)
    branches: list[str] = []

    def initialize() -> None:
        engine = queues.create_engine(url)
        start.wait()
        branches.append(queues.initialize(engine, site_id="paris").branch)
        engine.dispose()

    threads = [threading.Thread(target=initialize) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(branches) == 6
    assert len(set(branches)) == 1


def test_simultaneous_processes_agree_on_one_branch(new_database: NewDatabase):
    code = (
        "import sys, queues\n"
        "engine = queues.create_engine(sys.argv[1])\n"
        "sys.stdin.read(1)\n"
        "print(queues.initialize(engine, site_id='paris').branch)\n"
    )
    command_line = [sys.executable, "-c", code, new_database()]
    processes = [
        subprocess.Popen(command_line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    for process in processes:
        process.stdin.write("!")
        process.stdin.flush()
    answers = [process.communicate(timeout=60)[0].strip() for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert len(set(answers)) == 1


def plain(url: str) -> Engine:
    return create_engine(url)


def eager(url: str) -> Engine:
    engine = create_engine(url)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    return engine


def autocommitting(url: str) -> Engine:
    return create_engine(url, isolation_level="AUTOCOMMIT")


def serializable(url: str) -> Engine:
    return create_engine(url, isolation_level="SERIALIZABLE")


def begun_by_the_driver(url: str) -> Engine:
    return create_engine(url, connect_args={"autocommit": False})


def skip_where_the_dialect_lacks_it(make: Callable[[str], Engine], dialect: str) -> None:
    if dialect == "postgresql" and make in (eager, begun_by_the_driver):
        pytest.skip("a habit of SQLite users only")
    if make is begun_by_the_driver and sys.version_info < (3, 12):
        pytest.skip("needs the sqlite3 module of Python 3.12")


@pytest.mark.parametrize("make", [plain, eager, begun_by_the_driver, autocommitting, serializable])
def test_initialize_works_on_the_engine_of_an_application(
    make: Callable[[str], Engine], new_database: NewDatabase, dialect: str
):
    skip_where_the_dialect_lacks_it(make, dialect)
    engine = make(new_database())
    queues.initialize(engine, site_id="paris")
    migrations.check(engine, site_id="paris")
    engine.dispose()


@pytest.mark.parametrize("make", [plain, eager, begun_by_the_driver, autocommitting, serializable])
def test_a_failing_migration_leaves_no_table(make, new_database: NewDatabase, dialect: str):
    skip_where_the_dialect_lacks_it(make, dialect)
    engine = make(new_database())
    with engine.connect() as connection:
        connection.execute(text("CREATE TABLE lrq_receive_marks (in_the_way INTEGER)"))
        connection.commit()
    with pytest.raises(Exception, match="lrq_receive_marks"):
        queues.initialize(engine, site_id="paris")
    assert names(engine) == {"lrq_receive_marks"}
    engine.dispose()


def test_sqlite_files_are_switched_to_wal(tmp_path: Path):
    engine = create_engine(f"sqlite:///{tmp_path}/own.db")
    queues.initialize(engine, site_id="paris")
    with engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
    engine.dispose()


def test_the_alembic_table_of_an_application_is_not_touched(engine: Engine):
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)"))
        connection.execute(text("INSERT INTO alembic_version VALUES ('theirs')"))
    queues.initialize(engine, site_id="paris")
    with engine.connect() as connection:
        assert connection.execute(text("SELECT version_num FROM alembic_version")).scalars().all() == ["theirs"]


def apply_as_a_dba(url: str, sql: str) -> None:
    """Run a script as the commands `sqlite3` and `psql -f` do."""
    target = make_url(url)
    if target.get_backend_name() == "sqlite":
        with contextlib.closing(sqlite3.connect(str(target.database))) as connection:
            connection.executescript(sql)
        return
    import psycopg

    plain_url = target.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(plain_url, autocommit=True) as connection:
        connection.execute(sql)


def test_the_printed_sql_makes_the_same_tables_as_initialize(new_database: NewDatabase, dialect: str):
    url = new_database()
    apply_as_a_dba(url, migrations.ddl(dialect))
    engine = queues.create_engine(url)
    with pytest.raises(NotInitializedError, match="belong to no site yet"):
        migrations.check(engine)
    queues.initialize(engine, site_id="paris")
    test_the_migrations_equal_the_metadata(engine)
    engine.dispose()


FUNCTIONS = text("SELECT pg_get_functiondef(oid), proacl::text FROM pg_proc WHERE proname LIKE 'lrq%' ORDER BY 1")


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_the_printed_sql_makes_the_same_functions_as_initialize(site: Engine, new_database: NewDatabase, dialect: str):
    url = new_database()
    apply_as_a_dba(url, migrations.ddl(dialect))
    printed = queues.create_engine(url)
    with site.connect() as ours, printed.connect() as theirs:
        expected = ours.execute(FUNCTIONS).all()
        assert len(expected) > 10
        assert theirs.execute(FUNCTIONS).all() == expected
    printed.dispose()


def test_the_printed_sql_sets_its_version_last(dialect: str):
    assert schema.SCHEMA in io.StringIO(migrations.ddl(dialect)).read()[-200:]


def test_an_unknown_database_is_refused():
    with pytest.raises(ConfigurationError, match="choose one of postgresql, sqlite"):
        migrations.ddl("mysql")


@pytest.mark.parametrize(
    ("url", "said"), [("mysql://", "not with mysql"), ("postgresql+asyncpg://", "begin the database URL with")]
)
def test_an_unknown_driver_is_refused(url: str, said: str):
    with pytest.raises(ConfigurationError, match=said):
        dialects.of(create_mock_engine(url, lambda *_: None))


def test_two_postgresql_databases_have_different_incarnations(new_database: NewDatabase, dialect: str):
    engines = [queues.create_engine(new_database()) for _ in range(2)]
    found = []
    for engine in engines:
        with engine.connect() as connection:
            found.append(dialects.of(connection).incarnation(connection))
        engine.dispose()
    assert found == ["file", "file"] if dialect == "sqlite" else found[0] != found[1]


def test_check_notices_a_disabled_ordering_trigger(site: Engine):
    if site.dialect.name == "sqlite":
        pytest.skip("SQLite needs no trigger")
    with site.begin() as connection:
        for table in triggered(connection):
            connection.execute(text(f"ALTER TABLE {table} DISABLE TRIGGER lrq_sequence_commit"))
    with pytest.raises(SchemaMismatchError, match="the enabled trigger lrq_sequence_commit"):
        migrations.check(site)


def test_sessions_from_before_fences_have_no_lead_and_stay_in_a_downgrade(site: Engine):
    values = {"client": "policy", "destination": "tokyo", "state": "idle", "reason": "", "branch": "", "cut": ""}
    values |= dict.fromkeys(("acked_seq", "lost_seq", "transferred_rows", "updated_us"), 0)
    with site.begin() as connection:
        config = migrations.config()
        config.attributes["connection"] = connection
        command.downgrade(config, "0003")
        connection.execute(insert(tables.sessions.sessions).values(values))
        command.upgrade(config, "0007")
        assert connection.execute(select(tables.sessions.sessions.c["lead", "leaps", "leaped_us"])).all() == [(0, 0, 0)]
        command.downgrade(config, "0003")
        assert connection.execute(select(tables.sessions.sessions.c.destination)).scalars().all() == ["tokyo"]


@pytest.mark.parametrize(("state", "again"), [("55P03", True), ("40P01", True), ("57014", False)])
def test_a_migration_tries_again_after_a_lock_timeout_or_a_deadlock_only(site: Engine, state: str, again: bool):
    if site.dialect.name == "sqlite":
        pytest.skip("on SQLite a migration is a short transaction like all others")
    with pytest.raises(StoreUnavailableError) as raised, mapped_errors(site), site.begin() as connection:
        connection.exec_driver_sql(f"DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '{state}'; END $$")
    assert is_lock_timeout(raised.value) == again
