"""The signals of a process before its command takes them over: the libraries take a second to load."""

import os
import signal
from collections.abc import Sequence
from types import FrameType
from typing import Final

#: The first process of a container; the system leaves out each signal that such a process has not taken over.
_FIRST_PROCESS: Final = 1
#: The exit code of a process that SIGTERM has ended, as shells tell it.
_TERMINATED: Final = 128 + signal.SIGTERM

_hang_ups: Final[list[int]] = []


def take_first_signals(arguments: Sequence[str]) -> None:
    """Note each SIGHUP of `lrq serve`, which would end the process, and let SIGTERM end the first process too."""
    if [each for each in arguments if not each.startswith("-")][:1] == ["serve"]:
        signal.signal(signal.SIGHUP, lambda number, _frame: _hang_ups.append(number))
    if os.getpid() == _FIRST_PROCESS:
        signal.signal(signal.SIGTERM, _end)


def hung_up() -> bool:
    """Whether a SIGHUP has come to a process that had not taken it over."""
    return bool(_hang_ups)


def _end(_number: int, _frame: FrameType | None) -> None:
    os._exit(_TERMINATED)
