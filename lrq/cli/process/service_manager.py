"""Tell a service manager, such as systemd, that a process is ready, works and stops (the protocol of sd_notify).

The manager names its socket in the environment. Without that name nothing is sent.
"""

import os
import socket
import threading
from collections.abc import Callable, Mapping
from typing import Final

from queues.clock import SYSTEM_CLOCK, Clock
from queues.logs import logger

#: The signs of life within one time of the manager's watchdog.
_SIGNS: Final = 2.5

log = logger("lrq.server")


def watchdog_pause(environment: Mapping[str, str], pid: int) -> float | None:
    """Return the seconds between two signs of life that the manager asks of process *pid*; None for none. Pure."""
    asked, of = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", str(pid))
    if not asked.isdigit() or int(asked) == 0 or of != str(pid):
        return None
    return int(asked) / 1_000_000 / _SIGNS


def socket_address(environment: Mapping[str, str]) -> str | None:
    """Return the address of the manager's socket, None without one; a leading `@` stands for a zero byte. Pure."""
    told = environment.get("NOTIFY_SOCKET", "")
    if told.startswith("@"):
        return "\0" + told[1:]
    return told if told.startswith("/") else None


class ServiceManager:
    """Tells the manager of this process, if there is one; no failure of its socket disturbs the process."""

    def __init__(self, environment: Mapping[str, str], clock: Clock = SYSTEM_CLOCK) -> None:
        """Read the manager's wishes from *environment*."""
        self._address = socket_address(environment)
        self._pause = watchdog_pause(environment, os.getpid())
        self._clock = clock
        self._stopping = threading.Event()

    def ready(self, status: str, is_alive: Callable[[], bool]) -> None:
        """Tell that the process is ready, with *status* in words; from now on tell at intervals that it lives.

        No sign of life is sent while *is_alive* returns False, so that the manager restarts the process.
        """
        self._tell(f"READY=1\nSTATUS={status}")
        if self._address is not None and self._pause is not None:
            threading.Thread(target=self._watch, args=(self._pause, is_alive), name="lrq-watchdog", daemon=True).start()

    def stopping(self) -> None:
        """Tell that the process stops."""
        self._stopping.set()
        self._tell("STOPPING=1")

    def _watch(self, pause: float, is_alive: Callable[[], bool]) -> None:
        while not self._stopping.is_set():
            if is_alive():
                self._tell("WATCHDOG=1")
            self._clock.wait(self._stopping, pause)

    def _tell(self, state: str) -> None:
        if self._address is None:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sending:
                sending.setblocking(False)
                sending.sendto(state.encode(), self._address)
        except OSError as error:
            log.warning("the service manager cannot be told", reason=str(error))
