"""A trigger of others that leaves out rows of a table, without an error of the database."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sqlalchemy import Engine

_POSTGRESQL: Final = (
    "CREATE FUNCTION careless() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$",
    "CREATE TRIGGER careless BEFORE {} ON {} FOR EACH ROW WHEN ({}) EXECUTE FUNCTION careless()",
)
_SQLITE: Final = ("CREATE TRIGGER careless BEFORE {} ON {} WHEN {} BEGIN SELECT RAISE(IGNORE); END",)


@contextmanager
def rows_left_out(engine: Engine, table: str, when: str = "true", *, on: str = "INSERT") -> Iterator[None]:
    """Leave out the new rows of *table* for which *when*, a condition of SQL, holds; or the changes of *on*."""
    is_sqlite = engine.dialect.name == "sqlite"
    with engine.begin() as connection:
        for statement in _SQLITE if is_sqlite else _POSTGRESQL:
            connection.exec_driver_sql(statement.format(on, table, when))
    try:
        yield
    finally:
        with engine.begin() as connection:
            connection.exec_driver_sql("DROP TRIGGER careless" if is_sqlite else "DROP FUNCTION careless CASCADE")
