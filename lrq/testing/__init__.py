"""Test an application that uses lrq: see its entries before the commit, and call its listener.

Each name is loaded at its first use, so the pytest plugin costs nothing in tests without lrq.

Example:
    >>> from lrq.testing import deliver, transmitted
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lrq.testing.delivery import deliver, deliver_rollback
    from lrq.testing.outgoing import Transmitted, transmitted

_HOMES: Final = {
    "Transmitted": "lrq.testing.outgoing",
    "deliver": "lrq.testing.delivery",
    "deliver_rollback": "lrq.testing.delivery",
    "transmitted": "lrq.testing.outgoing",
}

__all__ = ["Transmitted", "deliver", "deliver_rollback", "transmitted"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'lrq.testing' has no attribute {name!r}")
    found: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
