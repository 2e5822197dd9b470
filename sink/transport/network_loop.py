"""One event loop, in one thread of the process, for streams that have no threads of their own."""

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")

_guard = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_thread: threading.Thread | None = None
# gRPC's calls of an event loop wait for ever in a process that was forked from one with such calls.
_is_inherited = False
# The event loop refers to its tasks weakly.
_tasks: set[asyncio.Task[Any]] = set()


def is_usable() -> bool:
    """Return whether this process can use the loop: no process can that was forked from a user of one."""
    return not _is_inherited


def has_begun() -> bool:
    """Return whether the loop of this process runs."""
    return _loop is not None


def running() -> asyncio.AbstractEventLoop:
    """Return the loop of this process; the first call starts its thread, which ends with the process.

    Raises `RuntimeError` if the machine has no thread; the next call tries again.
    """
    global _loop, _thread
    with _guard:
        if _loop is None:
            loop = asyncio.new_event_loop()
            thread = threading.Thread(target=loop.run_forever, name="lrq-network", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                loop.close()
                raise
            _loop, _thread = loop, thread
        return _loop


def is_here() -> bool:
    """Return whether the caller runs in the loop's thread, which must not wait."""
    return threading.current_thread() is _thread


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Run *work* in the loop, and wait for its result; not for the loop's own thread."""
    return asyncio.run_coroutine_threadsafe(work, _running_for(work)).result()


def begin(work: Coroutine[Any, Any, None]) -> None:
    """Run *work* in the loop, and do not wait; *work* raises no error."""
    _running_for(work).call_soon_threadsafe(_begin, work)


def _running_for(work: Coroutine[Any, Any, Any]) -> asyncio.AbstractEventLoop:
    try:
        return running()
    except RuntimeError:
        # Python would warn of work that was never begun.
        work.close()
        raise


def _begin(work: Coroutine[Any, Any, None]) -> None:
    task = asyncio.ensure_future(work)
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)


def _leave_inherited() -> None:
    global _guard, _loop, _thread, _is_inherited
    _guard = threading.Lock()
    _is_inherited = _is_inherited or _loop is not None
    _loop = _thread = None


os.register_at_fork(after_in_child=_leave_inherited)
