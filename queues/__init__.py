"""Routing queues of a site: names, entries, positions, tables and their stores."""

import lrq  # noqa: F401 - tells in one sentence when other packages have the names of ours
from queues.engine import create_engine
from queues.migrate import initialize

__all__ = ["create_engine", "initialize"]
