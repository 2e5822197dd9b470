"""A TCP relay between a source and a sink, whose connections a test holds and cuts one by one."""

import socket
import threading
from contextlib import suppress


class Joined:
    """One connection through the relay; bytes from the caller pass until `held_after` of them have passed."""

    def __init__(self, caller: socket.socket, sink: socket.socket, held_after: int | None) -> None:
        self._sockets = caller, sink
        self._left = held_after
        self._changed = threading.Condition()
        self._is_cut = False
        #: Whether the connection holds bytes of the caller back.
        self.is_holding = False
        #: The pumps that still run; none once the connection has ended.
        self.threads = [
            threading.Thread(target=self._pump, args=pair, daemon=True)
            for pair in ((caller, sink, True), (sink, caller, False))
        ]
        for thread in self.threads:
            thread.start()

    @property
    def is_open(self) -> bool:
        return all(thread.is_alive() for thread in self.threads)

    def hold(self) -> None:
        """Hold all further bytes of the caller."""
        with self._changed:
            self._left = 0

    def go_on(self) -> None:
        with self._changed:
            self._left = None
            self._changed.notify_all()

    def cut(self) -> None:
        """End both sides, without the bytes that are held."""
        with self._changed:
            self._is_cut = True
            self._changed.notify_all()
        for side in self._sockets:
            with suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)

    def _pump(self, taken: socket.socket, given: socket.socket, is_forward: bool) -> None:
        with suppress(OSError):
            while data := taken.recv(4096):
                if is_forward and not self._admitted(len(data)):
                    break
                given.sendall(data)
        self.cut()
        taken.close()

    def _admitted(self, size: int) -> bool:
        with self._changed:
            if self._left is not None:
                self._left -= size
            self.is_holding = self._left is not None and self._left < 0
            self._changed.wait_for(lambda: self._is_cut or self._left is None or self._left >= 0)
            self.is_holding = False
            return not self._is_cut


class Relay:
    """Listens at `endpoint` and passes each connection on to *target*, a TCP endpoint of this machine."""

    def __init__(self, target: str) -> None:
        self.target = int(target.rpartition(":")[2])
        #: The bytes after which a connection is held, by its number, counted from 0.
        self.held_after: dict[int, int] = {}
        #: The bytes after which every other connection is held; None stands for never.
        self.others_held_after: int | None = None
        self.connections: list[Joined] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                caller, _ = self._listener.accept()
                try:
                    sink = socket.create_connection(("127.0.0.1", self.target))
                except OSError:
                    caller.close()
                    continue
                held_after = self.held_after.get(len(self.connections), self.others_held_after)
                self.connections.append(Joined(caller, sink, held_after))

    def is_holding(self, number: int) -> bool:
        return len(self.connections) > number and self.connections[number].is_holding

    def open_connections(self) -> int:
        return sum(connection.is_open for connection in self.connections)

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self.connections:
            connection.cut()
