"""Test an application that uses lrq: see its entries before the commit, call its listener, run sites in the test.

Each name is loaded at its first use, so the pytest plugin costs nothing in tests without lrq. See docs/testing.md.

Example:
    >>> from lrq.testing import deliver, pair, transmitted
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lrq.testing.delivery import deliver, deliver_rollback
    from lrq.testing.local_site import LocalSite
    from lrq.testing.outgoing import Transmitted, transmitted
    from lrq.testing.sites import pair, site

_HOMES: Final = {
    "LocalSite": "lrq.testing.local_site",
    "Transmitted": "lrq.testing.outgoing",
    "deliver": "lrq.testing.delivery",
    "deliver_rollback": "lrq.testing.delivery",
    "pair": "lrq.testing.sites",
    "site": "lrq.testing.sites",
    "transmitted": "lrq.testing.outgoing",
}

__all__ = ["LocalSite", "Transmitted", "deliver", "deliver_rollback", "pair", "site", "transmitted"]


if not TYPE_CHECKING:  # otherwise a type checker believes every misspelt name

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module 'lrq.testing' has no attribute {name!r}")
        found: object = getattr(import_module(_HOMES[name]), name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
