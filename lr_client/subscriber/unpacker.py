"""Unpack the next blocks of receive queues while their followers wait for the database or the listener."""

import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from discovery.threads import watched
from queues.errors import NeedsFullSyncError
from queues.receive.kept_blocks import KeptBlock
from queues.thread_lack import is_lack

#: The followers whose blocks wait at most; a follower unpacks left-out blocks itself.
_MOST_WAITING: Final = 64


class Unpacker:
    """One thread for all followers of a subscription, which begins with the first block; thread-safe."""

    def __init__(self) -> None:
        """Start no thread yet."""
        self._waiting: deque[Sequence[KeptBlock]] = deque(maxlen=_MOST_WAITING)
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def begin(self, blocks: Sequence[KeptBlock]) -> None:
        """Have *blocks* unpacked soon, in their order; return at once."""
        if not blocks:
            return
        with self._changed:
            if self._is_closed:
                return
            self._waiting.append(blocks)
            if self._thread is None or not self._thread.is_alive():
                # After an error, which is in the log, followers unpack themselves and the next block starts a thread.
                self._thread = watched("lrq-unpacker", self._run, lambda _error: None)
                try:
                    self._thread.start()
                except RuntimeError as error:
                    if not is_lack(error):
                        raise
            self._changed.notify()

    def close(self) -> None:
        """End the thread after its present block; idempotent."""
        with self._changed:
            self._is_closed = True
            self._waiting.clear()
            self._changed.notify()

    def _run(self) -> None:
        while (blocks := self._next()) is not None:
            for block in blocks:
                if self._is_closed:
                    return
                # The follower of the queue meets the damage at its turn, and reports it.
                with suppress(NeedsFullSyncError):
                    block.entries()

    def _next(self) -> Sequence[KeptBlock] | None:
        with self._changed:
            while not self._waiting and not self._is_closed:
                self._changed.wait()
            return None if self._is_closed else self._waiting.popleft()
