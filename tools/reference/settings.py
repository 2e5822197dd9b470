"""The reference of all settings, from the class `lr_server.Settings` and its docstring."""

import inspect
import re
from typing import Any, Final

from pydantic_core import PydanticUndefined

from lr_server.settings import Settings
from lrq.cli.example_file import EXAMPLE
from tools.reference.tables import table

_ATTRIBUTE: Final = re.compile(r"^    (\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)
_SIZES: Final = ((1024**3, "GiB"), (1024**2, "MiB"))


def settings() -> str:
    """Return one table of all settings, and the commented example file; raise `LookupError` for one without words."""
    meanings = documented()
    if missing := {*Settings.model_fields} ^ {*meanings}:
        raise LookupError(f"the docstring of Settings and its fields differ: {', '.join(sorted(missing))}")
    rows = [
        (f"`{name}`", _default(name, field.default), meanings[name]) for name, field in Settings.model_fields.items()
    ]
    heads = ("setting", "default", "meaning")
    return f"{table(heads, rows)}\n## The example file\n\n```toml\n{EXAMPLE}```\n"


def documented() -> dict[str, str]:
    """Return the words of the docstring for each field."""
    _, attributes = inspect.cleandoc(Settings.__doc__ or "").split("Attributes:\n")
    return {name: " ".join(words.split()) for name, words in _ATTRIBUTE.findall(attributes)}


def _default(name: str, value: Any) -> str:  # noqa: ANN401 - a default has the type of its field
    if value is PydanticUndefined:
        return "required"
    if value is None or value in ((), {}):
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if name.endswith("_bytes") and (found := next(((size, unit) for size, unit in _SIZES if value % size == 0), None)):
        return f"{value // found[0]} {found[1]}"
    return f"`{value}`"
