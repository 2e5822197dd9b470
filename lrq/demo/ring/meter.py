"""The producer: it sends one number after the other, and remembers the acknowledged ones."""

import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

from lr_client.producer import Producer
from lrq.demo.ring.places import CLIENT, PRODUCER, SINK
from queues.clock import SYSTEM_CLOCK
from queues.errors import LrqError, OutcomeUnknownError
from queues.words import in_words

#: Time between two entries, and before another try, in seconds.
_PAUSE: Final = 0.005
_RETRY: Final = 0.05


class Meter:
    """Sends numbers from `start` to `finish`. The next number follows the answer to the one before.

    Attributes:
        acknowledged: The numbers that the ring has acknowledged, in their order.
        longest_pause: The longest time between two acknowledgements, in seconds.
        trouble: The reason why the newest attempt failed; empty before the first failure.
    """

    def __init__(self, endpoints: Sequence[str]) -> None:
        """Send to the servers at *endpoints*."""
        self.acknowledged: list[int] = []
        self.longest_pause = 0.0
        self.trouble = ""
        self._producer = Producer(",".join(endpoints), client=CLIENT, producer=PRODUCER)
        self._finishing = threading.Event()
        self._giving_up = threading.Event()
        self._thread = threading.Thread(target=self._run, name="demo-meter", daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def finish(self, timeout: float) -> bool:
        """Send no further number; return whether the last one is acknowledged within *timeout* seconds."""
        self._finishing.set()
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End at once; a number without an answer stays in doubt."""
        self._finishing.set()
        self._giving_up.set()
        self._producer.close(0.0)
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        answered = None
        while not self._finishing.is_set():
            number = len(self.acknowledged) + 1
            if not self._is_sent(number):
                return
            self.acknowledged.append(number)
            now = SYSTEM_CLOCK.monotonic()
            self.longest_pause = max(self.longest_pause, now - (now if answered is None else answered))
            answered = now
            SYSTEM_CLOCK.wait(self._finishing, _PAUSE)

    def _is_sent(self, number: int) -> bool:
        """Send *number* until it is acknowledged; return False once the meter gives up."""
        while not self._giving_up.is_set():
            try:
                self._producer.send([(b"%d" % number, [SINK])])
            except OutcomeUnknownError as error:
                # A second call of `send` could store the number twice. The library repeats the request itself.
                self.trouble = in_words(error)
                if self._is_settled():
                    return True
            except LrqError as error:
                # Nothing of the request is stored.
                self._note(error)
            else:
                return True
        return False

    def _is_settled(self) -> bool:
        """Repeat the request in doubt until its outcome is known; return whether the request is stored."""
        while not self._giving_up.is_set():
            try:
                return bool(self._producer.settle())
            except OutcomeUnknownError as error:
                self._note(error)
            except LrqError as error:
                self._note(error)
                return False
        return False

    def _note(self, error: LrqError) -> None:
        self.trouble = in_words(error)
        SYSTEM_CLOCK.wait(self._giving_up, _RETRY)
