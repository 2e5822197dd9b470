"""Producers of a ring with a journal of their acknowledged entries: the oracle of a fault run."""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from lr_client.producer import Producer
from queues.clock import SYSTEM_CLOCK
from queues.errors import LrqError, OutcomeUnknownError, UsageError


class JournalOfProducer:
    """A producer in a thread of its own, from the beginning to `stop`; `acked` grows in the order of the answers."""

    def __init__(
        self,
        endpoints: Sequence[str],
        name: str,
        sinks: Sequence[str],
        on_acked: Callable[[bytes], None] = lambda _: None,
    ) -> None:
        """Send from now on; call *on_acked* right after each answer."""
        self.name = name
        self._on_acked = on_acked
        self.acked: list[bytes] = []
        #: All payloads, noted before they are sent, as an application stores a value first.
        self.noted: list[bytes] = []
        self.sent = 0
        #: The longest time without an answer, in seconds.
        self.longest = 0.0
        self._sinks = list(sinks)
        self._producer = Producer(",".join(endpoints), client="policy", producer=name)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"producer-{name}", daemon=True)
        self._thread.start()

    def stop(self, timeout: float) -> bool:
        """Settle the last request, and end; return False if it has no answer within *timeout* seconds."""
        self._stopping.set()
        self._thread.join(timeout)
        self._producer.close(0.0)
        return not self._thread.is_alive()

    def _run(self) -> None:
        # A closed producer raises this error: the request stays without an answer.
        with suppress(UsageError):
            self._produce()

    def _produce(self) -> None:
        answered = SYSTEM_CLOCK.monotonic()
        while not self._stopping.is_set():
            payload = f"{self.name}:{self.sent}".encode()
            self.noted.append(payload)
            self._until_acked(payload)
            self._on_acked(payload)
            self.sent += 1
            self.acked.append(payload)
            now = SYSTEM_CLOCK.monotonic()
            self.longest, answered = max(self.longest, now - answered), now
            SYSTEM_CLOCK.wait(self._stopping, 0.002)

    def _until_acked(self, payload: bytes) -> None:
        """Send *payload* until it is acknowledged; a request with an unknown outcome is repeated, not sent again."""
        while True:
            try:
                self._producer.send([(payload, self._sinks)], timeout=5.0)
            except OutcomeUnknownError:
                if self._is_settled():
                    return
            except UsageError:
                raise
            except LrqError:
                SYSTEM_CLOCK.wait(threading.Event(), 0.05)
            else:
                return

    def _is_settled(self) -> bool:
        """Repeat the request until its outcome is known; return whether it is stored."""
        while True:
            try:
                return bool(self._producer.settle(timeout=5.0))
            except OutcomeUnknownError:
                continue
            except UsageError:
                raise
            except LrqError:
                return False
