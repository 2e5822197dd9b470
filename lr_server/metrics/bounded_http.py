"""A small HTTP server whose connections are bounded: in number, for each caller, and in time."""

import socket
from collections.abc import Callable
from socketserver import ThreadingMixIn
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from queues.clock import SYSTEM_CLOCK, Clock
from queues.logs import logger
from sink.transport.call_slots import CallLimits, CallSlot, CallSlots

log = logger("lrq.metrics")

#: The longest time until a request has come, and then that of its answer, in seconds.
_PATIENCE: Final = 30.0
#: The most requests at one moment, and the most of one address.
REQUESTS: Final = CallLimits(16, 8, _PATIENCE, "requests for metrics")

_BUSY: Final = b"HTTP/1.0 503 Service Unavailable\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n%s\n"


class BoundedHttpServer(ThreadingMixIn, WSGIServer):
    """Answers each request in a thread; a request above the limits gets 503 and the reason.

    A connection without a request yields to a new one, so silent ones do not keep the probes out.
    """

    daemon_threads = True

    def __init__(self, host: str, port: int, app: Callable[..., Any], slots: CallSlots) -> None:
        """See `bounded_server`."""
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        self.address_family, _, _, _, address = found[0]
        self._slots = slots
        self._held: dict[socket.socket, CallSlot] = {}
        super().__init__((str(address[0]), port), _Quiet)
        self.set_app(app)

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as in the base
        """Answer in a thread if there is a slot, otherwise turn the caller away."""
        connection: socket.socket = request
        slot = self._slots.enter_before_silent(str(client_address[0]), lambda: _cut(connection))
        if isinstance(slot, CallSlot):
            self._held[connection] = slot
            super().process_request(request, client_address)
            return
        if self._slots.is_news():
            log.warning("a request for metrics was turned away", reason=slot)
        try:
            # A new connection has slot for these bytes, so the call does not wait.
            connection.sendall(_BUSY % slot.encode())
        except OSError:
            log.debug("the caller did not wait for the answer")
        self.shutdown_request(request)

    def request_came(self, connection: socket.socket) -> None:
        """Let the request of *connection* keep its slot until it is answered."""
        if (slot := self._held.get(connection)) is not None:
            slot.confirm()

    def shutdown_request(self, request: Any) -> None:  # noqa: ANN401
        """Close the connection and free its slot."""
        super().shutdown_request(request)
        slot = self._held.pop(request, None)
        if slot is not None:
            self._slots.leave(slot)

    def service_actions(self) -> None:
        """End the connections whose requests do not come; the base calls this twice a second."""
        self._slots.end_overdue()

    def handle_error(self, _request: object, client_address: Any) -> None:  # noqa: ANN401
        """Log a request that broke off, without a traceback on stderr."""
        log.debug("a request for metrics broke off", caller=str(client_address[0]), exc_info=True)


def bounded_server(
    host: str, port: int, app: Callable[..., Any], *, limits: CallLimits = REQUESTS, clock: Clock = SYSTEM_CLOCK
) -> BoundedHttpServer:
    """Listen for requests to the WSGI application *app*; raise `OSError` if that is impossible."""
    return BoundedHttpServer(host, port, app, CallSlots(limits, clock))


def _cut(connection: socket.socket) -> None:
    """End a connection that another thread uses; the thread then fails and closes it."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        log.debug("the connection has just ended")


class _Quiet(WSGIRequestHandler):
    server: BoundedHttpServer
    #: The base limits each read and write so; an answer is one write.
    timeout = _PATIENCE

    def get_environ(self) -> dict[str, Any]:
        """Return the environment of the application, once the request has come."""
        self.server.request_came(self.connection)
        return super().get_environ()

    def log_message(self, format: str, *args: object) -> None:
        """Write no line for each request."""
