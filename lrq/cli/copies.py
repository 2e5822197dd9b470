"""The option `--copy CLIENT:TABLE,...` of `lrq work`."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from sqlalchemy import Engine

from lr_client.subscriber.listener import RoutingQueueListener
from lr_client.tables.copied_tables import CopiedTables
from queues.database.transactions import reading
from queues.errors import UsageError

#: A table with the name of its copy; quotes may hold commas.
_TABLE: Final = re.compile(r'((?:"(?:[^"]|"")*"|[^",=])+)(?:=((?:"(?:[^"]|"")*"|[^",=])+))?(?:,|$)')


def copied_tables(options: Sequence[str], source_column: str | None, greatest: str | None) -> list[CopiedTables]:
    """Return the listeners that *options* name; *greatest* has columns between commas.

    Raises `UsageError` for a malformed option.
    """
    for name, given in (("--source-column", source_column), ("--greatest", greatest)):
        if given is not None and not options:
            raise UsageError(f"{name} belongs to --copy: name the tables to copy")
    columns = [] if greatest is None else [name.strip() for name in greatest.split(",")]
    return [CopiedTables(*_parts(each), source_column=source_column, greatest=columns) for each in options]


def require_copies(engine: Engine, listeners: Iterable[RoutingQueueListener]) -> None:
    """Raise `ConfigurationError` if a table that one of *listeners* copies cannot take rows."""
    copies = [each for each in listeners if isinstance(each, CopiedTables)]
    if copies:
        with reading(engine) as connection:
            for each in copies:
                each.require_tables(connection)


def _parts(option: str) -> tuple[str, dict[str, str]]:
    client, separator, rest = option.partition(":")
    found: dict[str, str] = {}
    place = 0
    while place < len(rest):
        match = _TABLE.match(rest, place)
        if match is None:
            break
        name = match[1].strip()
        found[name] = (match[2] or name).strip()
        place = match.end()
    if not (separator and found) or place < len(rest) or rest.endswith(","):
        raise UsageError(f"--copy {option!r} is no CLIENT:TABLE,...: write both, such as shop:public.orders")
    return client.strip(), found
