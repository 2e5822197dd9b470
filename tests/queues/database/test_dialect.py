"""The `Dialect` port keeps its promises on both databases."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise

import pytest
import sqlalchemy
from sqlalchemy import Connection, Engine, MetaData, NullPool, Table, TableClause, make_url, select, text

import queues
from queues.database import dialects
from queues.database.cuts_port import StoredTable
from queues.database.dialect import Dialect
from queues.database.transactions import reading, writing
from queues.errors import ConfigurationError, StoreUnavailableError
from tests.seen_statements import seen_statements

COUNT = text("SELECT count(*) FROM numbers")


@pytest.fixture
def app(site: Engine) -> Engine:
    with site.begin() as connection:
        connection.execute(text("CREATE TABLE numbers (id INTEGER PRIMARY KEY)"))
        connection.execute(text("INSERT INTO numbers VALUES (1), (2), (3), (4), (5)"))
    return site


@pytest.fixture
def ours(app: Engine) -> Dialect:
    return dialects.of(app)


def count(connection: Connection) -> int:
    return int(connection.execute(COUNT).scalar_one())


@contextmanager
def impatient(engine: Engine) -> Iterator[Connection]:
    """Open a transaction of the application's own engine; the transaction does not wait for locks."""
    on_sqlite = dialects.of(engine) is dialects.SQLITE
    arguments = {"timeout": 0} if on_sqlite else {"options": "-c lock_timeout=50"}
    other = sqlalchemy.create_engine(engine.url, poolclass=NullPool, connect_args=arguments)
    with other.connect() as connection, connection.begin():
        yield connection


def durability(connection: Connection) -> str:
    """Return the database's own setting for the durability of this transaction's commit."""
    on_sqlite = dialects.of(connection) is dialects.SQLITE
    return str(connection.execute(text("PRAGMA synchronous" if on_sqlite else "SHOW synchronous_commit")).scalar_one())


# --- transactions ---------------------------------------------------------------------------------------------------


def test_a_second_writer_waits_only_for_a_single_writer_database(app: Engine, ours: Dialect):
    with writing(app), impatient(app) as second:
        try:
            ours.begin_write(second)
            waits = False
        except sqlalchemy.exc.OperationalError:
            waits = True
        assert waits == ours.one_writer


def test_a_reading_transaction_at_one_state_sees_no_later_commit(app: Engine, ours: Dialect):
    with reading(app, snapshot=True) as connection:
        assert count(connection) == 5
        with app.begin() as other:
            other.execute(text("INSERT INTO numbers VALUES (6)"))
        assert count(connection) == 5
    with app.connect().execution_options(**ours.one_state) as connection:
        assert count(connection) == 6


def test_a_writing_transaction_at_one_state_sees_no_later_commit(app: Engine, ours: Dialect):
    with writing(app, snapshot=True) as connection:
        assert count(connection) == 5
        if not ours.one_writer:
            with app.begin() as other:
                other.execute(text("INSERT INTO numbers VALUES (6)"))
        assert count(connection) == 5


def test_a_kept_table_cannot_be_emptied_for_its_reader(app: Engine, ours: Dialect):
    emptying = text("DELETE FROM numbers" if ours is dialects.SQLITE else "TRUNCATE numbers")
    with app.connect().execution_options(lrq_reading=True, **ours.one_state) as connection, connection.begin():
        ours.keep(connection, "numbers")
        connection.execute(text("SELECT 1 FROM lrq_site")).all()
        try:
            with impatient(app) as other:
                other.execute(emptying)
        except sqlalchemy.exc.OperationalError as error:
            assert "lock timeout" in str(error)  # noqa: PT017 - one database refuses, the other one keeps the rows
        assert count(connection) == 5


def test_a_durable_commit_overrides_a_hastened_one(app: Engine, ours: Dialect):
    with writing(app) as connection:
        ours.hasten_commit(connection)
        ours.run_all(connection, ours.durable_commit)
        assert durability(connection) in ("on", "2")


def test_a_hastened_commit_does_not_wait_for_the_disk(app: Engine, ours: Dialect):
    with writing(app) as connection:
        assert ours.hasten_commit(connection) == (durability(connection) == "off")
    with writing(app) as connection:
        assert durability(connection) in ("on", "2")


@pytest.mark.parametrize("durably", [True, False])
def test_any_statement_can_return_the_columns_of_a_lease(app: Engine, ours: Dialect, durably: bool):
    with writing(app) as connection:
        ours.hasten_commit(connection)
        shown = select(sqlalchemy.literal(7), *ours.presence(durably=durably))
        ((seven, *_),) = ours.run_all(connection, [(shown, {"name": "server", "held": 3})])[0]
        assert seven == 7
        assert not durably or durability(connection) in ("on", "2")


def test_an_engine_that_commits_every_statement_is_recognized(app: Engine, ours: Dialect):
    for options, alone in (({}, False), ({"isolation_level": "AUTOCOMMIT"}, True)):
        engine = sqlalchemy.create_engine(app.url, poolclass=NullPool, **options)
        with engine.connect() as connection, connection.begin():
            assert ours.commits_alone(connection) == alone
    with app.begin() as connection:
        assert not ours.commits_alone(connection)


@pytest.mark.usefixtures("impatient_database")
def test_end_idle_limits_idle_transactions_on_postgresql_and_changes_nothing_on_sqlite(app: Engine, ours: Dialect):
    engine = queues.create_engine(app.url, poolclass=NullPool)
    ours.end_idle(engine, 2.5)
    with reading(engine) as connection:
        if ours is dialects.POSTGRESQL:
            limit = connection.execute(text("SHOW idle_in_transaction_session_timeout")).scalar_one()
            assert limit == "2500ms"
        assert count(connection) == 5


def test_a_writing_transaction_begins_with_a_statement_only_to_take_the_write_lock(app: Engine, ours: Dialect):
    statements = seen_statements(app)
    with writing(app):
        pass
    frame = ("BEGIN", "COMMIT", "PRAGMA")
    assert sum(not statement.startswith(frame) for statement in statements) == (1 if ours.one_writer else 0)


# --- set-up ---------------------------------------------------------------------------------------------------------


def test_the_incarnation_stays_while_the_database_does(app: Engine, ours: Dialect):
    with app.connect() as connection:
        assert ours.incarnation(connection) == ours.incarnation(connection) != ""


def test_an_initialized_database_has_every_required_part(app: Engine, ours: Dialect):
    with app.connect() as connection:
        assert ours.lacks(connection) == []
        inspector = sqlalchemy.inspect(connection)
        assert all(inspector.has_table(table) for table in ours.own_tables.tables)


def test_two_exclusive_transactions_do_not_overlap(app: Engine, ours: Dialect):
    with (
        ours.exclusive(app),
        pytest.raises(sqlalchemy.exc.OperationalError, match=r"locked|lock timeout"),
        impatient(app) as other,
        ours.exclusive(other.engine),
    ):
        pass


def test_only_a_network_database_has_a_connect_timeout(new_database: Callable[[], str]):
    url = make_url(new_database())
    dialect = dialects.named(url.get_backend_name())
    assert dialect.connect_within(url, 3) == ({} if dialect is dialects.SQLITE else {"connect_timeout": 3})
    assert dialect.connect_within(url.update_query_dict({"connect_timeout": "9"}), 3) == {}


def test_an_unknown_database_is_refused_by_name(dialect: str):
    with pytest.raises(ConfigurationError, match="no tables for 'oracle': choose one of postgresql, sqlite"):
        dialects.named("oracle")
    assert dialects.named(dialect) in (dialects.SQLITE, dialects.POSTGRESQL)


def test_an_engine_of_an_unknown_database_is_refused(monkeypatch: pytest.MonkeyPatch):
    engine = sqlalchemy.create_engine("sqlite://")
    monkeypatch.setattr(engine.dialect, "name", "oracle")  # the driver of oracle is not installed here
    with pytest.raises(ConfigurationError, match="not with oracle: use another database URL"):
        dialects.of(engine)


# --- cuts -----------------------------------------------------------------------------------------------------------


def test_a_pinned_state_is_read_until_its_block_ends(app: Engine, ours: Dialect):
    with ours.pin_cut(app, folder=None, check=lambda: None) as state:
        with app.begin() as connection:
            connection.execute(text("DELETE FROM numbers"))
        with ours.read_at(app, state.name) as connection:
            assert count(connection) == 5
    with pytest.raises((LookupError, sqlalchemy.exc.DBAPIError)), ours.read_at(app, state.name):
        pass


def test_an_impossible_name_of_a_state_is_refused(app: Engine, ours: Dialect):
    with pytest.raises(LookupError), ours.read_at(app, "no such'state"):
        pass


@pytest.mark.parametrize("parts", [1, 2, 4])
def test_ranges_hold_every_row_once(app: Engine, ours: Dialect, parts: int):
    with app.connect() as connection:
        table = Table("numbers", MetaData(), autoload_with=connection)
        (stored,) = ours.stored_tables(connection, table)
        low, high = stored.extent or pytest.fail("a plain table has places")
        edges = [None, *(low + (high - low) * part // parts for part in range(1, parts)), None]
        found = [
            number
            for begin, end in pairwise(edges)
            for number in connection.execute(select(table.c.id).where(*ours.between(begin, end))).scalars()
        ]
        whole = connection.execute(select(table.c.id).where(*ours.between(low, high))).scalars()
        assert sorted(found) == sorted(whole) == [1, 2, 3, 4, 5]


def test_a_view_has_neither_ranges_nor_an_estimate(app: Engine, ours: Dialect):
    with app.begin() as connection:
        connection.execute(text("CREATE VIEW small AS SELECT id AS number FROM numbers WHERE id < 3"))
        view = Table("small", MetaData(), autoload_with=connection)
        assert ours.stored_tables(connection, view) == [StoredTable("small", None, extent=None)]
        assert ours.estimate_rows(connection, TableClause("small")) == 0


def test_the_estimate_is_near_the_number_of_rows(app: Engine, ours: Dialect):
    with app.begin() as connection:
        connection.execute(text("ANALYZE numbers"))
        assert ours.estimate_rows(connection, TableClause("numbers")) == 5


def test_a_database_that_cannot_be_reached_is_unavailable_to_a_writer(app: Engine):
    gone = app.url.set(database="/no/such/folder/x.db" if dialects.of(app) is dialects.SQLITE else "no_such_database")
    with pytest.raises(StoreUnavailableError), writing(queues.create_engine(gone, poolclass=NullPool)):
        pass
