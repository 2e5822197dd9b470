"""Values of JSON as SQLite stores them in a column of a declared type. Pure."""

from queues.exact_json import Number, dumps

_SMALLEST, _GREATEST = -(2**63), 2**63 - 1


def stored_value(value: object, declared: str) -> object:
    r"""Return *value*, read by `queues.exact_json`, for a column of the type *declared*.

    A boolean is 0 or 1, and an array or object its JSON. A number with a point keeps its digits in a column for text or
    for numbers. A text such as `\x00ff` is bytes in a column whose type has the word BLOB or BYTEA.
    """
    match value:
        case bool():
            return int(value)
        case int():
            return value if _SMALLEST <= value <= _GREATEST else str(value)
        case Number():
            return _number(value, declared.upper())
        case str():
            return _bytes(value) if value.startswith("\\x") and _is_binary(declared.upper()) else value
        case list() | dict():
            return dumps(value)
    return value


def _number(value: Number, declared: str) -> object:
    # SQLite turns a text into a number in all other columns, but not in a column without a type.
    return str(value) if declared and not _is_binary(declared) else float(value)


def _is_binary(declared: str) -> bool:
    return "BLOB" in declared or "BYTEA" in declared


def _bytes(value: str) -> object:
    try:
        return bytes.fromhex(value[2:])
    except ValueError:
        return value
