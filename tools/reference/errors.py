"""The reference of all errors, from the tree in `queues.errors` and the codes of SQL."""

import inspect
import re
from collections.abc import Iterator
from typing import Final

from queues import errors as tree
from queues.errors import LrqError
from queues.send_log.call_errors import CODES
from tools.reference.tables import table

_LINE: Final = re.compile(r"^ *[x+*] (\w+) *(?:\(also [^)]*\))? *(.*)$", re.MULTILINE)


def errors() -> str:
    """Return a section for each branch of the tree; raise `LookupError` if the tree's drawing lacks an error."""
    if missing := {each.__name__ for each, _ in _walk(LrqError)} ^ set(advice()):
        raise LookupError(f"the drawing in queues/errors.py and its classes differ: {', '.join(sorted(missing))}")
    return "\n".join(_branch(branch) for branch in LrqError.__subclasses__() if branch.__module__ == tree.__name__)


def advice() -> dict[str, str]:
    """Return the words beside each error of the tree's drawing; empty where its branch has them."""
    return dict(_LINE.findall(inspect.getdoc(tree) or ""))


def _branch(branch: type[LrqError]) -> str:
    todo = advice()[branch.__name__]
    rows = [_row(error, depth) for error, depth in _walk(branch)]
    heading = f"## {branch.__name__}\n\n" + (f"**To do:** {todo}.\n\n" if todo else "")
    return heading + table(("error", "meaning", "also", "SQL"), rows)


def _walk(error: type[LrqError], depth: int = 0) -> Iterator[tuple[type[LrqError], int]]:
    yield error, depth
    for each in error.__subclasses__():
        if each.__module__ == tree.__name__:
            yield from _walk(each, depth + 1)


def _row(error: type[LrqError], depth: int) -> tuple[str, str, str, str]:
    words = inspect.cleandoc(error.__doc__ or "")
    own = advice()[error.__name__]
    if depth and own:
        words = f"{words} **To do:** {own}."
    also = [each.__name__ for each in error.__bases__ if not issubclass(each, LrqError) and each is not Exception]
    codes = [f"`{code}`" for code, raised in CODES.items() if raised is error]
    return f"{'– ' * depth}`{error.__name__}`", words, ", ".join(f"`{each}`" for each in also), ", ".join(codes)
