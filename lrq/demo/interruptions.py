"""Interruptions of a demonstration: each ending signal is a `KeyboardInterrupt`, and none disturbs the clean-up."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final, NoReturn

_ENDINGS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interruptible() -> Iterator[None]:
    """Turn SIGINT, SIGTERM and SIGHUP into `KeyboardInterrupt`; restore the handlers afterwards."""
    before = {ending: signal.signal(ending, _interrupt) for ending in _ENDINGS}
    try:
        yield
    finally:
        for ending, disposition in before.items():
            signal.signal(ending, disposition)


def ignore_interruptions() -> None:
    """Ignore the signals of `interruptible` during the clean-up."""
    for ending in _ENDINGS:
        signal.signal(ending, signal.SIG_IGN)


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
