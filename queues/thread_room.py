"""Whether this process can start a further thread."""

import threading

from queues.thread_lack import is_lack


def can_start(number: int = 1, name: str = "lrq-room") -> bool:
    """Return whether *number* threads can run beside the present ones; so many start, and end at once."""
    end = threading.Event()
    started: list[threading.Thread] = []
    try:
        for _ in range(number):
            thread = threading.Thread(target=end.wait, name=name, daemon=True)
            thread.start()
            started.append(thread)
    except RuntimeError as error:
        if not is_lack(error):
            raise
        return False
    finally:
        end.set()
        for thread in started:
            thread.join()
    return True
