"""JSON whose numbers keep all digits: a number with a point or an exponent stays the text that was read. Pure."""

import json
from typing import Any, Final


class Number(str):
    """The text of a JSON number that is no integer."""

    __slots__ = ()


_DECODER: Final = json.JSONDecoder(parse_float=Number)


def loads(text: str) -> Any:  # noqa: ANN401 - any value of JSON
    """Return the value of *text*; integers are `int`, other numbers `Number`. Raises `ValueError`, `RecursionError`."""
    return _DECODER.decode(text)


def dumps(value: object) -> str:
    """Return the compact JSON of a value that `loads` has returned, with the digits that were read."""
    match value:
        case Number():
            return str(value)
        case dict():
            return (
                "{"
                + ",".join(f"{json.dumps(name, ensure_ascii=False)}:{dumps(of)}" for name, of in value.items())
                + "}"
            )
        case list():
            return "[" + ",".join(map(dumps, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
