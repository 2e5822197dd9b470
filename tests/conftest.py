"""Databases for every test: SQLite files and a real PostgreSQL."""

import gc
import logging
import os
import random
import shutil
import signal
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from sqlalchemy import Connection, Engine, NullPool, event, make_url, text

import queues
from queues.database.dialect import READING
from queues.database.postgresql import transactions
from queues.database.postgresql.transactions import _END_WHEN_IDLE, PostgresqlTransactions
from tests.clusters import cluster, ensure_user, folder_for_databases
from tests.failures import tell_failures_at_once
from tests.heavy import heavy_place, is_heavy, slow_files_first
from tests.nightly import halve_slow_tests

# No deadline, and slow examples are no error: their duration depends on the load of the machine.
_ANY_PACE: dict[str, Any] = {"deadline": None, "suppress_health_check": [hypothesis.HealthCheck.too_slow]}
hypothesis.settings.register_profile("lrq", print_blob=True, **_ANY_PACE)
# A mutant meets few and always the same examples, so that thousands of runs end and can be repeated.
hypothesis.settings.register_profile("mutants", **_ANY_PACE, derandomize=True, max_examples=30, database=None)
hypothesis.settings.load_profile("lrq")

_end_idle = PostgresqlTransactions.end_idle

#: Creates and initialises the database of a site; returns its engine.
NewSite = Callable[[str], Engine]


def pytest_configure() -> None:
    """Prepare for child processes.

    A shell that runs the suite in the background makes Ctrl-C ignored. PostgreSQL's programs start as another user,
    with a fork. The handlers of gRPC for forks sometimes crash the child before the program runs.
    """
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if "LRQ_TEST_POSTGRES" not in os.environ:
        ensure_user()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark each test with its database: `-k sqlite`, `-k postgresql` and `-m "not postgresql"` select by the mark."""
    if not isinstance(item, pytest.Function):
        return
    dialect = item.callspec.params.get("dialect") if hasattr(item, "callspec") else None
    if dialect in ("sqlite", "postgresql"):
        item.add_marker(dialect)
    elif dialect is None and "dialect" in item.fixturenames:
        raise pytest.UsageError(
            f"{item.nodeid}: give the fixture `dialect` params, so that tests are marked by database"
        )


def pytest_sessionstart(session: pytest.Session) -> None:
    """Tell failures at once on CI, which may end a run before its end."""
    if os.environ.get("CI"):
        tell_failures_at_once(session.config)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect 13,000 tests without searching them for garbage again and again; they stay until the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the files with slow tests first, and each slow test on one database only, but for `make nightly`."""
    halve_slow_tests(items)
    slow_files_first(items)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Let a heavy test wait for its place; the time of the wait does not count for the test's timeout."""
    with heavy_place() if is_heavy(item) else nullcontext():
        return (yield)


@pytest.fixture(scope="session", autouse=True)
def _patient_database() -> Iterator[None]:
    """Let each transaction stand still for a minute: a busy machine sometimes stops a test for some seconds.

    A server tries again after that; a test of a single function cannot.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transactions, "_END_WHEN_IDLE", ("SET LOCAL idle_in_transaction_session_timeout = '60s'", {}))
        patch.setattr(PostgresqlTransactions, "end_idle", _end_after_a_minute)
        yield


def _end_after_a_minute(ours: PostgresqlTransactions, engine: Engine, seconds: float) -> None:
    _end_idle(ours, engine, max(seconds, 60))


@pytest.fixture(scope="session", autouse=True)
def _readers_write_nothing() -> None:
    """Let SQLite refuse a write in a transaction for reading: beside other writers it would fail as "locked"."""
    event.listen(Engine, "begin", _forbid_writes)


def _forbid_writes(connection: Connection) -> None:
    reads = bool(connection.get_execution_options().get(READING))
    if connection.dialect.name == "sqlite" and connection.info.get("reads", False) != reads:
        connection.exec_driver_sql(f"PRAGMA query_only = {reads}")
        connection.info["reads"] = reads


@pytest.fixture(autouse=True)
def _plain_logs(caplog: pytest.LogCaptureFixture) -> None:
    """Give captured lines pytest's format again: PySpark's loggers change that of each handler they get, for ever."""
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        if isinstance(logger := logging.root.manager.loggerDict.get(name), logging.Logger):
            # pytest gives its handlers to all loggers that do not propagate.
            logger.propagate = True
    if type(caplog.handler.formatter).__module__.startswith("pyspark"):
        caplog.handler.setFormatter(logging.Formatter("%(levelname)s %(name)s %(message)s"))


@pytest.fixture
def impatient_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give brief transactions the limit that they have outside tests."""
    monkeypatch.setattr(transactions, "_END_WHEN_IDLE", _END_WHEN_IDLE)
    monkeypatch.setattr(PostgresqlTransactions, "end_idle", _end_idle)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """Run one PostgreSQL server for the session, or use LRQ_TEST_POSTGRES; give the URL of its `postgres` database."""
    given = os.environ.get("LRQ_TEST_POSTGRES")
    if given:
        yield given
        return
    # Three servers of a site, its sinks and 24 subscribers need more connections than the usual 100.
    with cluster(max_connections="400") as made:
        yield made.url()


@pytest.fixture(scope="session")
def postgres_admin(postgres_server: str) -> Iterator[Connection]:
    """Give a connection that creates databases and drops them."""
    engine = queues.create_engine(postgres_server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        yield connection
    engine.dispose()


@pytest.fixture(scope="session")
def database_folder() -> Iterator[Path]:
    """Give a folder for SQLite files, which lies in memory if there is room."""
    folder = Path(tempfile.mkdtemp(prefix="lrq-sites-", dir=folder_for_databases()))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def dialect(request: pytest.FixtureRequest) -> str:
    """Give the name of the database that the test runs on."""
    return str(request.param)


@pytest.fixture(scope="session")
def template(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Give a function that names a migrated database without a site: a copy is quicker than a migration."""
    made: dict[str, str] = {}

    def named(dialect: str) -> str:
        if dialect not in made:
            made[dialect] = _make_template(dialect, request, tmp_path_factory)
        return made[dialect]

    return named


def _make_template(dialect: str, request: pytest.FixtureRequest, folders: pytest.TempPathFactory) -> str:
    name = f"template_{uuid.uuid4().hex}"
    if dialect == "sqlite":
        name = str(folders.mktemp("template") / "site.db")
        url = make_url(f"sqlite:///{name}")
    else:
        request.getfixturevalue("postgres_admin").execute(text(f'CREATE DATABASE "{name}"'))
        url = make_url(request.getfixturevalue("postgres_server")).set(database=name)
    engine = queues.create_engine(url, poolclass=NullPool)
    queues.initialize(engine, site_id="template")
    with engine.begin() as connection:
        for table in ("lrq_site", "lrq_branches", "lrq_log_head"):
            connection.execute(text(f"DELETE FROM {table}"))
    return name


@pytest.fixture
def new_database(new_copy: Callable[[str | None], str]) -> Callable[[], str]:
    """Give a function that creates an empty database and returns its URL."""
    return lambda: new_copy(None)


@pytest.fixture
def new_copy(dialect: str, request: pytest.FixtureRequest) -> Iterator[Callable[[str | None], str]]:
    """Give a function that creates a database, empty or as a copy of a template, and returns its URL."""
    made = _sqlite_files if dialect == "sqlite" else _postgresql_databases
    with made(request) as create:
        yield create


@contextmanager
def _sqlite_files(request: pytest.FixtureRequest) -> Iterator[Callable[[str | None], str]]:
    folder = Path(tempfile.mkdtemp(dir=request.getfixturevalue("database_folder")))

    def create(template: str | None) -> str:
        path = folder / f"{uuid.uuid4().hex}.db"
        if template is not None:
            shutil.copyfile(template, path)
        return f"sqlite:///{path}"

    yield create
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _postgresql_databases(request: pytest.FixtureRequest) -> Iterator[Callable[[str | None], str]]:
    server = make_url(request.getfixturevalue("postgres_server"))
    admin: Connection = request.getfixturevalue("postgres_admin")
    # A copy of the files takes half as long as the usual copy through the WAL; PostgreSQL 14 knows no other.
    strategy = " STRATEGY FILE_COPY" if (admin.dialect.server_version_info or ()) >= (15,) else ""
    made: list[str] = []

    def create(template: str | None) -> str:
        name = f"t_{uuid.uuid4().hex}"
        like = "" if template is None else f' TEMPLATE "{template}"{strategy}'
        admin.execute(text(f'CREATE DATABASE "{name}"{like}'))
        made.append(name)
        return server.set(database=name).render_as_string(hide_password=False)

    yield create
    for name in made:
        admin.execute(text(f'DROP DATABASE "{name}" WITH (FORCE)'))


@pytest.fixture
def new_site(dialect: str, new_copy: Callable[[str | None], str], template: Callable[[str], str]) -> Iterator[NewSite]:
    """Give a function that creates and initialises the database of a site and returns its engine."""
    engines: list[Engine] = []

    def create(site_id: str) -> Engine:
        engine = queues.create_engine(new_copy(template(dialect)))
        queues.initialize(engine, site_id=site_id)
        engines.append(engine)
        return engine

    yield create
    for engine in engines:
        engine.dispose()


@pytest.fixture
def site(new_site: NewSite) -> Engine:
    """Give the initialised database of site `paris`."""
    return new_site("paris")


@pytest.fixture
def chance() -> random.Random:
    """Give a random generator; its seed is printed when the test fails, and LRQ_TEST_SEED sets it."""
    seed = int(os.environ.get("LRQ_TEST_SEED") or random.SystemRandom().randrange(10**6))
    print(f"seed {seed}")
    return random.Random(seed)
