"""The schema of lrq's tables on PostgreSQL, carried by the database URL. Pure.

So every engine that lrq makes from the URL of another, in other processes too, finds the tables.
"""

from collections.abc import MutableMapping
from typing import Any, Final

from sqlalchemy import URL

from queues.errors import ConfigurationError

#: The key in the query of a URL.
SCHEMA_KEY: Final = "lrq_schema"
#: PostgreSQL cuts longer names.
_LONGEST: Final = 63


def checked_schema(name: object) -> str:
    """Return *name* if PostgreSQL takes it as the name of a schema; raise `ConfigurationError` otherwise."""
    if not isinstance(name, str) or not name or "\0" in name or len(name.encode()) > _LONGEST:
        raise ConfigurationError(f'schema must be a name of 1 to {_LONGEST} bytes: such as schema = "lrq"')
    if name.startswith("pg_"):
        raise ConfigurationError(f"PostgreSQL keeps names such as {name!r} for itself: choose another schema")
    return name


def schema_of(url: URL) -> str | None:
    """Return the schema that *url* names; None for the first schema of the search path."""
    found = url.query.get(SCHEMA_KEY)
    return None if found is None else checked_schema(found)


def in_schema(url: URL, schema: str | None) -> URL:
    """Return *url* with *schema*; raise `ConfigurationError` if *url* names another one."""
    named = schema_of(url)
    if schema is None or named == checked_schema(schema):
        return url
    if named is not None:
        raise ConfigurationError(
            f"the database URL names the schema {named!r}, but `schema` is {schema!r}: remove one of them"
        )
    return url.update_query_dict({SCHEMA_KEY: schema})


def take_out(arguments: MutableMapping[str, Any]) -> None:
    """Remove the schema from the arguments of a driver, which does not know the key."""
    arguments.pop(SCHEMA_KEY, None)
