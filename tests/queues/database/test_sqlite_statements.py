"""Statements given to SQLite's driver itself answer as through SQLAlchemy."""

from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, Engine, exc, insert, select, text, true, union_all, update

from queues.database import dialects, sqlite_statements
from queues.database.tables.destinations import tag_sets
from tests.waiting import eventually

pytestmark = pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
ADD = insert(tag_sets)
SETS = select(tag_sets.c.number, tag_sets.c.shared).order_by(tag_sets.c.number)
VALUES = {"number": 1, "client": "policy", "destinations": "tokyo", "shared": True, "last_seq": 0}


@pytest.fixture
def connection(site: Engine) -> Iterator[Connection]:
    with site.connect() as made:
        yield made


def test_truth_values_are_no_numbers(connection: Connection) -> None:
    sqlite_statements.change(connection, ADD, VALUES)
    both = union_all(select(tag_sets.c.shared), select(true()))
    changed = update(tag_sets).values(shared=False).returning(tag_sets.c.shared, tag_sets.c.number)
    assert repr(sqlite_statements.answer(connection, SETS, {})) == "[(1, True)]"
    assert repr(sqlite_statements.answer(connection, both, {})) == "[(True,), (True,)]"
    assert repr(sqlite_statements.answer(connection, changed, {})) == "[(False, 1)]"


def test_the_present_is_that_of_each_statement(connection: Connection) -> None:
    present = select(dialects.of(connection).present_us)
    (first,) = sqlite_statements.answer(connection, present, {})
    eventually(lambda: sqlite_statements.answer(connection, present, {}) > [first])


def test_the_first_statement_begins_a_transaction_of_the_connection(connection: Connection) -> None:
    assert sqlite_statements.change(connection, ADD, VALUES) == 1
    assert connection.in_transaction()
    connection.rollback()
    assert sqlite_statements.answer(connection, SETS, {}) == []


def test_a_statement_without_rows_has_an_empty_answer(connection: Connection) -> None:
    assert sqlite_statements.answer(connection, text("SAVEPOINT one"), {}) == []
    assert sqlite_statements.answer(connection, ADD, VALUES) == []


def test_errors_are_those_of_sqlalchemy(connection: Connection) -> None:
    with pytest.raises(exc.OperationalError, match="no such table: lrq_nothing"):
        sqlite_statements.answer(connection, text("SELECT 1 FROM lrq_nothing"), {})
    with pytest.raises(exc.IntegrityError):
        sqlite_statements.run_each(connection, "INSERT INTO lrq_tag_sets (number) VALUES (?)", [(1,)])
    with pytest.raises(exc.IntegrityError):
        sqlite_statements.change(connection, ADD, {"number": 1})
