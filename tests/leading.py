"""Lead ranges of a site without a server."""

from sqlalchemy import Engine

from queues.database import servers
from queues.database.leases import Lease


def lead(site: Engine, *numbers: int, count: int = 1, server: str = "test") -> list[Lease]:
    """Lead the ranges *numbers* (none for range 0) of *count*, each under a new generation."""
    wanted = numbers or (0,)
    servers.register(site, server, [], count=count, term=600)
    rows = [row for row in servers.look(site).ranges if row.number in wanted]
    held = servers.claim(site, server, rows)
    assert len(held) == len(wanted)
    return held
