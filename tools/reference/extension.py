"""The Sphinx extension of the documentation: puts each generated part in the place of its mark, before parsing.

A page has `<!-- reference: settings -->` where the reference of settings stands; GitHub shows nothing there.
"""

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from tools.reference.commands import commands
from tools.reference.errors import errors
from tools.reference.metrics import metrics
from tools.reference.protocol import protocol
from tools.reference.python_api import python_api
from tools.reference.settings import settings

if TYPE_CHECKING:
    from sphinx.application import Sphinx

PARTS: Final[Mapping[str, Callable[[], str]]] = {
    "commands": commands,
    "errors": errors,
    "metrics": metrics,
    "protocol": protocol,
    "python": python_api,
    "settings": settings,
}
_MARK: Final = re.compile(r"^<!-- reference: (\w+) -->$", re.MULTILINE)


def with_parts(page: str) -> str:
    """Return *page* with all its generated parts; raise `KeyError` for a mark without a part."""
    return _MARK.sub(lambda mark: PARTS[mark[1]](), page)


def setup(app: "Sphinx") -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("source-read", lambda _app, _name, source: source.__setitem__(0, with_parts(source[0])))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
