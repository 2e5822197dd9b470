"""Connections to sinks: one to an address with one certificate, shared by all of this process who talk to it."""

import threading
from typing import Final

import grpc
from grpc import _common

from sink.credentials import Pems

_OPTIONS: Final = (
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
    # The session has a backoff of its own, so the connection's need not be long; the second is how long one may take.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 5_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.max_send_message_length", -1),
)
# gRPC wakes every thread that waits for an answer ten times a second, so that a main thread hears Ctrl-C. Streams are
# read by other threads, and a hundred of them would keep a server busy with nothing.
_common.MAXIMUM_WAIT_TIMEOUT = 5.0


class Line:
    """One connection; gRPC keeps a thread for each, which wakes five times a second."""

    def __init__(self, address: str, pems: Pems | None) -> None:
        self.key = address, pems
        self.users = 0
        self.channel = _secure(address, pems) if pems else grpc.insecure_channel(address, options=_OPTIONS)


def _secure(address: str, pems: Pems) -> grpc.Channel:
    shown = grpc.ssl_channel_credentials(pems.authority, pems.key, pems.certificate)
    return grpc.secure_channel(address, shown, options=_OPTIONS)


_guard = threading.Lock()
_lines: dict[tuple[str, Pems | None], Line] = {}


def take(address: str, pems: Pems | None = None) -> Line:
    """Return the connection to *address*, by TLS with *pems*, made if nobody has one; `give_back` it."""
    with _guard:
        line = _lines.get((address, pems)) or _lines.setdefault((address, pems), Line(address, pems))
        line.users += 1
        return line


def give_back(line: Line, *, doubtful: bool) -> None:
    """Close the connection when nobody uses it any more; a *doubtful* one is not given to others again."""
    with _guard:
        line.users -= 1
        unused = not line.users
        if (unused or doubtful) and _lines.get(line.key) is line:
            del _lines[line.key]
    if unused:
        line.channel.close()
