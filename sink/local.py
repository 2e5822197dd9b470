"""Sinks in this process, for peers named `local:<site>`: the same rules without a network."""

import threading
from collections import defaultdict
from typing import Protocol
from weakref import WeakSet

from queues.clock import chosen
from queues.errors import PeerUnreachableError
from queues.names import ClientName, SiteId
from sink.writer import SinkWriter


class LocalSource(Protocol):
    """A source in this process."""

    def negotiate_again(self, client: ClientName, destination: SiteId) -> None:
        """Break the session of *client* with *destination* if it runs here without a network, and begin it again."""
        ...


_writers: defaultdict[SiteId, WeakSet[SinkWriter]] = defaultdict(WeakSet)
_sources: defaultdict[SiteId, WeakSet[LocalSource]] = defaultdict(WeakSet)
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


def offer_source(site: SiteId, source: LocalSource) -> None:
    """Let the sinks in this process reach a source of *site* with `end_streams`, as long as the object lives."""
    with _guard:
        _sources[site].add(source)


def withdraw_source(site: SiteId, source: LocalSource) -> None:
    """Remove this source from those that `end_streams` reaches."""
    with _guard:
        _sources[site].discard(source)


def end_streams(destination: SiteId, client: ClientName, source: SiteId) -> None:
    """Have the sources of site *source* in this process negotiate with the site *destination* again."""
    with _guard:
        sources = tuple(_sources.get(source, ()))
    for each in sources:
        each.negotiate_again(client, destination)
