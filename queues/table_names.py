"""Names of tables as SQL writes them: `orders`, `public.orders` or `"Two Words"`. Pure."""

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


def last_part(name: str) -> str:
    """Return the name without its schema and without quotes."""
    part: str = _PARTS.findall(name)[-1]
    return part[1:-1].replace('""', '"') if part.startswith('"') else part
