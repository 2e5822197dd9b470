"""Names and texts as SQL writes them: `orders`, `public.orders`, `"Two Words"`, `'a text'`. Pure."""

import re
from typing import Final

from queues.errors import UsageError

_PART: Final = r'(?:"(?:[^"\0]|"")+"|[^\W\d][\w$]*)'
_NAME: Final = re.compile(rf"{_PART}(?:\.{_PART})?")
_PARTS: Final = re.compile(_PART)


def table_name(text: object) -> str:
    """Return *text*, the name of a table with or without its schema; raise `UsageError` for any other object."""
    if isinstance(text, str) and _NAME.fullmatch(text):
        return text
    raise UsageError(f"{text!r} is no name of a table: write it as in SQL, such as public.orders")


def quoted(name: str) -> str:
    """Return *name* in quotes, as SQL writes it."""
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def literal(text: str) -> str:
    """Return *text* as a constant of SQL."""
    doubled = text.replace("'", "''")
    return f"'{doubled}'"


def last_part(name: str) -> str:
    """Return the name without its schema and without quotes."""
    part: str = _PARTS.findall(name)[-1]
    return part[1:-1].replace('""', '"') if part.startswith('"') else part
