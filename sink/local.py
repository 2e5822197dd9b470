"""Sinks in this process, for peers named `local:<site>`: the same rules without a network."""

import threading
from collections import defaultdict
from weakref import WeakSet

from queues.clock import chosen
from queues.errors import PeerUnreachableError
from queues.names import SiteId
from sink.writer import SinkWriter

_writers: defaultdict[SiteId, WeakSet[SinkWriter]] = defaultdict(WeakSet)
_guard = threading.Lock()


def offer(site: SiteId, writer: SinkWriter) -> None:
    """Make this sink of *site* available to peers in this process, as long as the object lives."""
    with _guard:
        _writers[site].add(writer)


def withdraw(site: SiteId, writer: SinkWriter) -> None:
    """Remove this sink from those that `find` returns."""
    with _guard:
        _writers[site].discard(writer)


def find(site: SiteId) -> SinkWriter:
    """Return a sink of *site*; raise `PeerUnreachableError` if this process runs no server of the site.

    If several servers run here, pick any: each of them takes frames.
    """
    with _guard:
        writers = tuple(_writers.get(site, ()))
    if not writers:
        raise PeerUnreachableError(f"no server of site {site!r} runs in this process")
    return chosen(writers)
