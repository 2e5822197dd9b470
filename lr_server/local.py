"""Sinks in this process, for peers named `local:<site>`: no network, the same rules."""

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
    """Let peers in this process find this sink of *site*, as long as it lives."""
    with _guard:
        _writers[site].add(writer)


def withdraw(site: SiteId, writer: SinkWriter) -> None:
    """Let nobody find it any more."""
    with _guard:
        _writers[site].discard(writer)


def find(site: SiteId) -> SinkWriter:
    """Return a sink of *site*; raise `PeerUnreachableError` when none of its servers runs in this process.

    Of several any, as of several endpoints: only that of the site's owner takes anything.
    """
    with _guard:
        writers = tuple(_writers.get(site, ()))
    if not writers:
        raise PeerUnreachableError(f"no server of site {site!r} runs in this process")
    return chosen(writers)
