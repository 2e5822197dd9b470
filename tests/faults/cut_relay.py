"""A relay between two Unix sockets. A test cuts either direction, and heals it later."""

import socket
import threading
from contextlib import suppress
from pathlib import Path


class CutRelay:
    """Passes connections on from the socket `listen` to the socket `target`, from the beginning to `close`."""

    def __init__(self, listen: Path, target: Path) -> None:
        self.endpoint = f"ipc://{listen}"
        self._target = target
        self._passes = {"forward": threading.Event(), "backward": threading.Event()}
        self.heal()
        self._sockets: set[socket.socket] = set()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(listen))
        self._listener.listen()
        self._is_closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, *directions: str) -> None:
        """Hold the bytes of *directions*: "forward" from callers, "backward" to them."""
        for direction in directions:
            self._passes[direction].clear()

    def heal(self) -> None:
        for event in self._passes.values():
            event.set()

    def close(self) -> None:
        self._is_closed = True
        self.heal()
        for each in (self._listener, *list(self._sockets)):
            _end(each)

    def _accept(self) -> None:
        while not self._is_closed:
            try:
                caller, _ = self._listener.accept()
            except OSError:
                return
            called = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                called.connect(str(self._target))
            except OSError:
                # The server of the target is gone just now.
                _end(caller)
                _end(called)
                continue
            self._sockets |= {caller, called}
            for taken, given, direction in ((caller, called, "forward"), (called, caller, "backward")):
                threading.Thread(target=self._pump, args=(taken, given, direction), daemon=True).start()

    def _pump(self, taken: socket.socket, given: socket.socket, direction: str) -> None:
        with suppress(OSError):
            while data := taken.recv(65_536):
                self._passes[direction].wait()
                given.sendall(data)
        for each in (taken, given):
            _end(each)
            self._sockets.discard(each)


def _end(each: socket.socket) -> None:
    with suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()
