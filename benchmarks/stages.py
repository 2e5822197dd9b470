"""The CPU time of the processes of lrq by stage, measured in the processes themselves.

Functions that begin a stage are wrapped. Each wrapper reads the CPU clock of its thread, so nothing is sampled.
Neither root nor another program is needed. The time of a nested stage does not count for the outer one. Each call costs
about a microsecond, so only functions that handle a batch, a block or a tick are wrapped.
"""

import re
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import wraps
from importlib import import_module
from typing import Any, Final

from benchmarks import cpu

#: The wrapped functions of the server, as `module:qualified name`, with their stages.
SERVER: Final[Mapping[str, str]] = {
    "queues.send_log.postgresql.log:PostgresqlLog.take_tick": "source: tick and read",
    "lr_server.feed.router:owed_rows": "source: route",
    "lr_server.feed.router:entry_rows": "source: number rows",
    "queues.blocks:encode_entries": "source: compress",
    "lr_server.session.batches:Batches._batch": "source: build the frame",
    "lr_server.session.stream:FrameStream._noted": "source: note acknowledgements",
    "sink.transport.received_frames:check_parts": "sink: verify",
    "queues.blocks:_check_before_unpacking": "sink: verify",
    "queues.blocks:decode_entries": "sink: unpack",
    "sink.log_frames:_packed": "sink: pack for the queue",
    "queues.database.postgresql.binary_copy:binary_copy": "sink: encode for COPY",
    "queues.database.postgresql.dialect:PostgresqlDialect.bulk_insert_columns": "sink: store and commit",
    "sink.answers:ack": "sink: acknowledge",
    "sink.writer:SinkWriter._take": "sink: decide",
}
#: The same for a subscriber.
SUBSCRIBER: Final[Mapping[str, str]] = {
    "lr_client.subscriber.steps:next_step": "subscriber: read",
    "lr_client.subscriber.delivery:Delivery._claim": "subscriber: claim",
    "lr_client.subscriber.delivery:Delivery._call": "subscriber: decode",
    "benchmarks.contenders.lrq_applied:Applying.process_updates_in_log_entry_sync": "subscriber: listener",
    "lr_client.subscriber.delivery:Delivery._complete": "subscriber: delete",
    "lr_client.subscriber.delivery:Delivery.carry_out": "subscriber: commit",
}
#: The CPU time of a kind of threads outside of all stages begins with this word.
OTHER: Final = "other, "
#: The CPU time outside of Python's threads, and of ended threads.
NATIVE: Final = "other, gRPC's own threads and ended ones"

#: The functions that run in threads of gRPC without a name.
_GRPC: Final = {"_run": "gRPC's threads that take frames or acknowledgements", "_serve": "gRPC's thread of calls"}


class Stages:
    """Counts the CPU seconds of each stage in this process."""

    def __init__(self) -> None:
        """Begin with no stage."""
        self._guard = threading.Lock()
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._staged: defaultdict[int, float] = defaultdict(float)
        self._local = threading.local()

    def watch(self, functions: Mapping[str, str]) -> None:
        """Wrap *functions*; raise `AttributeError` for a name that no longer exists."""
        for name, stage in functions.items():
            module, _, qualified = name.partition(":")
            owner: Any = import_module(module)
            *path, last = qualified.split(".")
            for part in path:
                owner = getattr(owner, part)
            original = getattr(owner, last)
            wrapped = self.wrapped(original, stage)
            setattr(owner, last, wrapped)
            if not path:
                _replace_imported(last, original, wrapped)

    def wrapped(self, function: Callable[..., Any], stage: str) -> Callable[..., Any]:
        """Return *function* with its CPU time counted for *stage*."""

        @wraps(function)
        def counted(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - passed on
            outer = getattr(self._local, "stage", None)
            self._turn(outer, stage)
            try:
                return function(*args, **kwargs)
            finally:
                self._turn(stage, outer)

        return counted

    def _turn(self, ended: str | None, begun: str | None) -> None:
        """Count the thread's time up to now for the stage that ends or is interrupted."""
        now = time.thread_time()
        if ended is not None:
            with self._guard:
                self._seconds[ended] += now - self._local.since
                self._staged[threading.get_ident()] += now - self._local.since
        self._local.stage, self._local.since = begun, now

    def report(self) -> dict[str, float]:
        """Return the CPU seconds of this process so far: by stage, and the rest by kind of thread."""
        with self._guard:
            found, staged = self._seconds.copy(), self._staged.copy()
        for thread in threading.enumerate():
            if thread.ident is not None:
                whole = time.clock_gettime(time.pthread_getcpuclockid(thread.ident))
                found[OTHER + kind_of(thread.name)] += max(whole - staged[thread.ident], 0.0)
        found[NATIVE] = max(cpu.used() - sum(found.values()), 0.0)
        return dict(found)


def kind_of(thread: str) -> str:
    """Return the name of a thread without the numbers and names of one session."""
    named = re.search(r"\((\w+)\)", thread)
    if named:
        return _GRPC.get(named[1], named[1])
    return "-".join(thread.split("-")[:2]) if thread.startswith("lrq-") else thread.split("_")[0]


def _replace_imported(name: str, original: object, wrapped: object) -> None:
    """Replace a function in all modules that have imported it by name."""
    for module in list(sys.modules.values()):
        if getattr(module, "__dict__", {}).get(name) is original:
            setattr(module, name, wrapped)


def spent(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """Return the CPU seconds of each stage between two reports; remainders may shrink, and then count as none."""
    return {stage: max(seconds - before.get(stage, 0.0), 0.0) for stage, seconds in after.items()}
