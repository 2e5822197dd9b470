"""Sinks in this process, for peers named `local:<site>`: no network, the same rules."""

import threading
from weakref import WeakValueDictionary

from queues.errors import PeerUnreachableError
from queues.names import SiteId
from sink.writer import SinkWriter

_writers: WeakValueDictionary[SiteId, SinkWriter] = WeakValueDictionary()
_guard = threading.Lock()


def offer(site: SiteId, writer: SinkWriter) -> None:
    """Let peers in this process find the sink of *site*, as long as it lives."""
    with _guard:
        _writers[site] = writer


def withdraw(site: SiteId, writer: SinkWriter) -> None:
    """Let nobody find it any more."""
    with _guard:
        if _writers.get(site) is writer:
            del _writers[site]


def find(site: SiteId) -> SinkWriter:
    """Return the sink of *site*; raise `PeerUnreachableError` when its server does not run in this process."""
    with _guard:
        writer = _writers.get(site)
    if writer is None:
        raise PeerUnreachableError(f"no server of site {site!r} runs in this process")
    return writer
