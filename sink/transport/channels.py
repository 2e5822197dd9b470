"""Connections to sinks, one for each address, certificate and lane, shared by all sessions of this process."""

import ctypes
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import Enum, auto
from typing import Final, NamedTuple

import grpc

from queues.clock import SYSTEM_CLOCK
from sink.transport.credentials import Pems

#: The largest message that comes in, in bytes. The answer of an older sink may hold visibilities of many ticks.
MAX_RECEIVED: Final = 64 * 1024 * 1024

_COMMON: Final = (
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
    # Sessions have their own backoff, so the connection's backoff is short. The second option limits one attempt.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 5_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # Shorter than the wait for a negotiation, so a silent name server is told, and not the peer.
    ("grpc.dns_ares_query_timeout", 8_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", MAX_RECEIVED),
)


def _noticing_silence(after_ms: int, within_ms: int) -> tuple[tuple[str, int], ...]:
    """Return options that end a connection after a silence of *after_ms*, and of *within_ms* after a question."""
    # The first limit of the answer is for the network, and the second one for a process that stands still.
    limits = ("grpc.keepalive_timeout_ms", "grpc.http2.ping_timeout_ms")
    return (("grpc.keepalive_time_ms", after_ms), *((limit, within_ms) for limit in limits))


#: The options of a connection to one of several servers: another server does the work of a silent one.
_REPLACEABLE_OPTIONS: Final = (*_COMMON, *_noticing_silence(3_000, 3_000))
#: The options for a slow line, where the question waits behind up to 1 MiB of a frame.
_SLOW_OPTIONS: Final = (*_COMMON, *_noticing_silence(10_000, 60_000))
#: The options of every other connection.
OPTIONS: Final = (*_COMMON, *_noticing_silence(10_000, 5_000))
# gRPC's own thread looks at a watched connection for up to 0.4 seconds after `unwatch`. The thread prints a traceback
# if the connection is closed meanwhile.
_LAST_LOOK: Final = 2.0
#: The longest sleep of a thread that waits for an answer, in seconds.
LONGEST_SLEEP: Final = 5.0


def wake_seldom() -> None:
    """Make gRPC's waiting threads wake every `LONGEST_SLEEP` seconds instead of ten times a second.

    gRPC wakes its threads for Ctrl-C in a main thread, but other threads read our streams. Otherwise a hundred idle
    sessions cost 4 % of a core. The setting is private to gRPC; without it, only the cost differs.
    """
    with suppress(ImportError):
        from grpc import _common

        _common.MAXIMUM_WAIT_TIMEOUT = LONGEST_SLEEP


class Lane(Enum):
    """The use of a connection: the streams of one lane share its buffers and its flow control.

    Requests for one of several servers have the lane REPLACEABLE, which notices a silent server sooner. The lanes of
    slow lines notice one later.
    """

    LOG = auto()
    SNAPSHOTS = auto()
    SLOW_LOG = auto()
    SLOW_SNAPSHOTS = auto()
    REPLACEABLE = auto()


_OPTIONS: Final = {
    Lane.SLOW_LOG: _SLOW_OPTIONS,
    Lane.SLOW_SNAPSHOTS: _SLOW_OPTIONS,
    Lane.REPLACEABLE: _REPLACEABLE_OPTIONS,
}


def options_of(lane: Lane) -> Sequence[tuple[str, int]]:
    """Return the options of a connection for *lane*."""
    return _OPTIONS.get(lane, OPTIONS)


class ChannelKey(NamedTuple):
    """Sessions with equal keys share a connection; *pems* is None without TLS."""

    address: str
    pems: Pems | None
    lane: Lane


class SharedChannel:
    """One connection; gRPC runs a thread for each, which wakes five times a second."""

    def __init__(self, key: ChannelKey) -> None:
        wake_seldom()
        self.key = key
        self.users = 0
        self.channel = _open(key.address, key.pems, options_of(key.lane))
        self._close_from = 0.0
        self._is_stuck = False

    @contextmanager
    def beginning(self) -> Iterator[None]:
        """Begin a call of streams in this block: gRPC starts threads for it.

        Without such a thread nothing ends the call, and gRPC's close would wait for its end for ever. So the
        connection is not closed then. Nor is it ever freed, because gRPC closes a connection that is freed.
        """
        try:
            yield
        except RuntimeError:
            self._is_stuck = True
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.channel))
            raise

    def watch(self, note: Callable[[grpc.ChannelConnectivity], None]) -> None:
        """Connect, and tell *note* each state of the connection until `unwatch`."""
        self.channel.subscribe(note, try_to_connect=True)

    def unwatch(self, note: Callable[[grpc.ChannelConnectivity], None]) -> None:
        """Tell *note* nothing more."""
        self.channel.unsubscribe(note)
        self._close_from = SYSTEM_CLOCK.monotonic() + _LAST_LOOK

    def close(self) -> None:
        """Close the connection without waiting; one that was watched is closed by another thread a moment later."""
        if self._is_stuck:
            return
        left = self._close_from - SYSTEM_CLOCK.monotonic()
        if left <= 0:
            self.channel.close()
            return
        timer = threading.Timer(left, self.channel.close)
        timer.daemon = True
        timer.start()


def _open(address: str, pems: Pems | None, options: Sequence[tuple[str, int]]) -> grpc.Channel:
    if pems is None:
        return grpc.insecure_channel(address, options=options)
    shown = grpc.ssl_channel_credentials(pems.authority, pems.key, pems.certificate)
    return grpc.secure_channel(address, shown, options=options)


_guard = threading.Lock()
_channels: dict[ChannelKey, SharedChannel] = {}
# Connections of the process before its fork. None is closed: a close would wait for threads of the parent.
_inherited: list[SharedChannel] = []


def take(address: str, pems: Pems | None = None, lane: Lane = Lane.LOG) -> SharedChannel:
    """Return the shared connection of *lane* to *address*, with TLS if *pems* are given; `give_back` it after use."""
    key = ChannelKey(address, pems, lane)
    with _guard:
        shared = _channels.get(key) or _channels.setdefault(key, SharedChannel(key))
        shared.users += 1
        return shared


def give_back(shared: SharedChannel, *, is_broken: bool) -> None:
    """Close the connection after its last user; with *is_broken*, new users get another connection."""
    with _guard:
        shared.users -= 1
        unused = not shared.users
        if (unused or is_broken) and _channels.get(shared.key) is shared:
            del _channels[shared.key]
    if unused:
        shared.close()


def _leave_inherited() -> None:
    """Open connections of its own in a forked process: nothing reads those of the parent there."""
    global _guard
    # A thread of the parent may hold the old one.
    _guard = threading.Lock()
    _inherited.extend(_channels.values())
    _channels.clear()


os.register_at_fork(after_in_child=_leave_inherited)
