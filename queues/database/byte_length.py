"""The length of a text in bytes, as SQL; the usual `length` counts characters."""

from sqlalchemy import BigInteger
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement


class ByteLength(FunctionElement[int]):
    """The bytes of one text in UTF-8; NULL for NULL."""

    name = "byte_length"
    inherit_cache = True
    type = BigInteger()


@compiles(ByteLength)
def _usual(element: ByteLength, compiler: SQLCompiler, **options: object) -> str:
    return f"octet_length({compiler.process(element.clauses, **options)})"


@compiles(ByteLength, "sqlite")
def _on_sqlite(element: ByteLength, compiler: SQLCompiler, **options: object) -> str:
    # SQLite has octet_length since 3.43 only.
    return f"length(CAST({compiler.process(element.clauses, **options)} AS BLOB))"
