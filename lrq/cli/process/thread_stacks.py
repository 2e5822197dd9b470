"""SIGUSR1 makes a process write the stacks of its threads to stderr: they show where it stands still."""

import signal
import sys
import threading
import traceback
from types import FrameType


def show_stacks_on_signal() -> None:
    """Take over SIGUSR1 where there is one. A stack has files, lines and functions, and no values.

    `faulthandler` reads the stacks without the interpreter's lock: a thread that ends meanwhile would end the process.
    """
    if hasattr(signal, "SIGUSR1"):
        signal.signal(signal.SIGUSR1, _show)


def _show(_number: int, _frame: FrameType | None) -> None:
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames = sys._current_frames()  # noqa: SLF001 - documented in spite of its name
    stacks = [_words(names.get(ident, str(ident)), frame) for ident, frame in frames.items()]
    # The signal may have interrupted a write to `sys.stderr`, whose buffer takes no second one meanwhile.
    with open(2, "wb", closefd=False) as stderr:
        stderr.write("".join(stacks).encode(errors="replace"))


def _words(name: str, frame: FrameType) -> str:
    return f"Thread {name} (most recent call last):\n{''.join(traceback.format_stack(frame))}\n"
