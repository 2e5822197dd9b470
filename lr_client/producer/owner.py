"""The process that uses a producer: a fork would give each number to two requests."""

import os
import secrets

from queues.errors import UsageError


class ProducerOwner:
    """The first process that calls the producer owns it, perhaps a child of the one that made the producer.

    Calls hold no lock here: a fork copies the locks of threads that the child does not have.
    """

    def __init__(self) -> None:
        self._pid = 0
        self._number = 0

    @property
    def is_other(self) -> bool:
        """Whether another process has used the producer before the fork of this one."""
        return self._pid not in (0, os.getpid())

    def check(self) -> None:
        """Take the producer for this process; raise `UsageError` if another one has used the producer."""
        if self.is_other:
            raise UsageError(
                "the producer was used before this process was forked, and sends nothing here: make a new "
                "Producer in each process, with a name of its own"
            )
        self._pid = os.getpid()

    @property
    def number(self) -> int:
        """The random number of the process, by which the site tells its requests from those of others.

        Drawn with the first request, so that two children of a fork have different ones. Only one thread may ask.
        """
        self._number = self._number or secrets.randbits(62) + 1
        return self._number
