"""Routing queues of a site: names, entries, positions, tables and their stores."""

from typing import TYPE_CHECKING, Final

import lrq_packages

if TYPE_CHECKING:
    from queues.database.autogenerate import include_name
    from queues.database.engine import create_engine
    from queues.database.migrations import initialize
    from queues.database.upgrades import downgrade, upgrade

_HOMES: Final = {
    "create_engine": "queues.database.engine",
    "downgrade": "queues.database.upgrades",
    "include_name": "queues.database.autogenerate",
    "initialize": "queues.database.migrations",
    "upgrade": "queues.database.upgrades",
}

__all__ = [
    "create_engine",
    "downgrade",
    "include_name",
    "initialize",
    "upgrade",
]

if not TYPE_CHECKING:  # otherwise a type checker believes every misspelt name
    __getattr__ = lrq_packages.lazy(__name__, _HOMES)
