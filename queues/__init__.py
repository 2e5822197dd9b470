"""Routing queues of a site: names, entries, positions, tables and their stores."""

import lrq_packages  # noqa: F401 - says in one sentence which other package has the name of one of ours
from queues.database.engine import create_engine
from queues.database.migrations import initialize
from queues.database.upgrades import downgrade, upgrade

__all__ = ["create_engine", "downgrade", "initialize", "upgrade"]
