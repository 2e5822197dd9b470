"""The end of a process of a demonstration: its standard input is closed."""

import os
import threading


def end_of_input() -> threading.Event:
    """Return an event that is set once the standard input is closed."""
    ended = threading.Event()

    def wait() -> None:
        # Not sys.stdin: its lock would block the interpreter's exit.
        while os.read(0, 1):
            pass
        ended.set()

    threading.Thread(target=wait, name="demo-input", daemon=True).start()
    return ended
