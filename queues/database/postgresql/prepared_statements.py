"""Statements as libpq takes them: prepared once for each connection, with values in the format of the wire."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import count
from typing import Any, Final, NamedTuple, Self, cast
from weakref import ref

from sqlalchemy import Connection

from queues.database.postgresql.answers import read_answers
from queues.database.postgresql.binary_copy import binary_array

#: A statement with the driver's named parameters (`%(name)s`), which is a constant of its module; and the values.
Request = tuple[str, Mapping[str, object]]

# Formats of values. PostgreSQL converts a text value to the type that the statement needs at its place.
_TEXT: Final = 0
BINARY: Final = 1
# The place of the statements in `Connection.info`.
_KEY: Final = "lrq_prepared"
_PARAMETER: Final = re.compile(r"%\((\w+)\)s")


class Array(NamedTuple):
    """An array of values of the PostgreSQL type `kind`."""

    kind: str
    values: Sequence[object]


class Prepared(NamedTuple):
    """The name of a prepared statement, and its values, each in the text or the binary format."""

    name: bytes
    values: Sequence[bytes | None]
    formats: Sequence[int]


class KnownStatements:
    """The prepared statements of a connection, and the last transaction that began with `exchange`."""

    def __init__(self) -> None:
        self.statements: dict[str, tuple[bytes, Sequence[str]]] = {}
        self.seen_in: ref[object] | None = None
        self._after: dict[str, dict[str, tuple[bytes, Sequence[str]]]] = {}

    @classmethod
    def of(cls, connection: Connection) -> Self:
        """Return those of *connection*."""
        known: Self = connection.info.setdefault(_KEY, cls())
        return known

    def choose(self, beginning: str) -> None:
        """Go on with the statements that were prepared after *beginning*: each isolation level has its own."""
        self.statements = self._after.setdefault(beginning, {})

    def prepared(self, connection: Connection, requests: Sequence[Request]) -> list[Prepared]:
        """Prepare each statement of *requests* once per connection; return them with their values."""
        for statement in dict(requests):
            if statement not in self.statements:
                text, parameters = _numbered(statement)
                name = b"lrq_%d" % next(_numbers)
                wire = cast("Any", connection.connection.dbapi_connection).pgconn
                read_answers(connection, [wire.prepare(name, text)])
                self.statements[statement] = name, parameters
        encoding = encoding_of(connection)
        return [_prepared(*self.statements[statement], values, encoding) for statement, values in requests]


_numbers = count()


def encoding_of(connection: Connection) -> str:
    """Return Python's name of the encoding in which the server reads the texts of *connection*, and writes them."""
    return str(cast("Any", connection.connection.dbapi_connection).info.encoding)


def forget_prepared(connection: Connection) -> None:
    """Prepare all statements of a connection anew at their next use."""
    connection.info.pop(_KEY, None)


@lru_cache(maxsize=256)
def _numbered(statement: str) -> tuple[bytes, Sequence[str]]:
    """Replace the named parameters by `$1`, `$2`, ...; return the statement and the names. Pure."""
    names = list(dict.fromkeys(_PARAMETER.findall(statement)))
    numbered = _PARAMETER.sub(lambda found: f"${names.index(found[1]) + 1}", statement)
    return numbered.replace("%%", "%").encode(), names


def _prepared(name: bytes, parameters: Sequence[str], values: Mapping[str, object], encoding: str) -> Prepared:
    given = [values[parameter] for parameter in parameters]
    formats = [BINARY if isinstance(value, bytes | Array) else _TEXT for value in given]
    return Prepared(name, [_written(value, encoding) for value in given], formats)


def _written(value: object, encoding: str) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, Array):
        return binary_array(value.kind, value.values, encoding)
    return (f"{{{','.join(map(str, value))}}}" if isinstance(value, list) else str(value)).encode(encoding)
