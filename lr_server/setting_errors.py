"""Put the errors of settings into one sentence, which tells the setting and the cure. Pure.

No sentence shows the wrong value, which may be a password.
"""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pydantic import ValidationError

#: The setting whose table has names of its own; in other tables operators choose the names.
_OWN_NAMES: Final = "ring"
#: Pydantic's mark, in the place of an error, for the name in a table instead of its value.
_NAME_MARK: Final = "[key]"
_WHOLE, _NUMBER, _TABLE = "write a whole number", "write a number", "write a table"
_SWITCH, _LIST = "write true or false", 'write a list, such as ["first", "second"]'
#: The cure for each kind of error of Pydantic, with the limits that Pydantic tells.
_CURES: Final = {
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float", "int_parsing_size"), _WHOLE),
    **dict.fromkeys(("float_type", "float_parsing"), _NUMBER),
    **dict.fromkeys(("bool_type", "bool_parsing"), _SWITCH),
    **dict.fromkeys(("dict_type", "mapping_type", "model_type"), _TABLE),
    **dict.fromkeys(("is_instance_of", "sequence_str"), _LIST),
    "finite_number": "write a finite number",
    "string_type": "write text in quotes",
    "path_type": "write the path of a file in quotes",
    "literal_error": "write {expected}",
    "greater_than": "write a number above {gt:.12g}",
    "greater_than_equal": "write a number of at least {ge:.12g}",
    "less_than_equal": "write a number of at most {le:.12g}",
    "too_short": "write at least {min_length} values, not {actual_length}",
    "too_long": "write at most {max_length} values, not {actual_length}",
}


def sentence(error: ValidationError, fields: Iterable[str]) -> str:
    """Describe the first problem in one sentence; *fields* are all settings, for the right name of a misspelt one."""
    problems = error.errors(include_url=False, include_input=False)
    # A misspelt name comes first, because it explains a missing one.
    first = min(problems, key=lambda problem: problem["type"] != "extra_forbidden")
    field, *within = (part for part in first["loc"] if part != _NAME_MARK)
    if first["type"] == "extra_forbidden":
        near = [] if within else difflib.get_close_matches(str(field), fields, n=1)
        name = ".".join(map(str, (field, *within)))
        return f"there is no setting {name!r}" + (f": did you mean {near[0]!r}?" if near else "")
    where = _where(str(field), within)
    if first["type"] == "missing":
        return f"{where} is missing: write it in the " + ("table" if within else f"file, or set LRQ_{where.upper()}")
    return f"{where}: {_cure(first['type'], first.get('ctx', {}), first['msg'])}"


def _where(field: str, within: Sequence[int | str]) -> str:
    """Return the place of a value, such as `peers[tokyo]`, `producers[meter].clients[0]` or `ring.rank`."""
    place = field
    for depth, part in enumerate(within):
        is_name = isinstance(part, str) and (depth > 0 or field == _OWN_NAMES)
        place += f".{part}" if is_name else f"[{part}]"
    return place


def _cure(kind: str, limits: Mapping[str, Any], message: str) -> str:
    return _CURES[kind].format_map(limits) if kind in _CURES else message.removeprefix("Value error, ")
