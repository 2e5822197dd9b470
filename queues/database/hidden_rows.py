"""Row level security, which hides rows without an error: a statement then misses entries, and they would be lost."""

from typing import Final

from sqlalchemy import Boolean, ColumnElement, Table, Text, literal, or_
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

#: The cure, for the end of a sentence.
SHOW_ALL: Final = "run `ALTER ROLE … BYPASSRLS`, or `ALTER TABLE … DISABLE ROW LEVEL SECURITY` for each table of lrq"


def hides_rows(*tables: Table) -> ColumnElement[bool]:
    """Return the SQL for whether policies of one of the *tables* apply to the role; always false on SQLite."""
    return or_(*(_HidesRows(literal(table.name, Text())) for table in tables))


class _HidesRows(FunctionElement[bool]):
    """Whether policies of the table with a name apply."""

    name = "hides_rows"
    inherit_cache = True
    type = Boolean()


@compiles(_HidesRows)
def _usual(element: _HidesRows, compiler: SQLCompiler, **options: object) -> str:
    name = compiler.process(element.clauses, **options)
    return f"coalesce(row_security_active(to_regclass({name})::oid), false)"


@compiles(_HidesRows, "sqlite")
def _on_sqlite(_element: _HidesRows, _compiler: SQLCompiler, **_options: object) -> str:
    return "0"
