"""Serves `grpc.health.v1.Health`: whether this server serves, as load balancers and probes ask.

All services of the server share one answer. The number of calls is bounded, as that of all other calls.
"""

import threading
from collections.abc import Callable, Iterator
from typing import Final

import grpc
from google.protobuf.message import DecodeError
from grpc_health.v1.health_pb2 import DESCRIPTOR, HealthCheckRequest, HealthCheckResponse

from queues.clock import SYSTEM_CLOCK, Clock
from sink.transport.admission import entered
from sink.transport.call_slots import CallLimits, CallSlots

#: Calls that have not told their request yet, and open calls of Watch; each occupies a thread.
CHECKS: Final = CallLimits(16, 8, 10.0, "checks of its health")
WATCHES: Final = CallLimits(16, 8, 10.0, "watches of its health")
#: The longest time between two looks whether a call has ended, in seconds.
_LOOK: Final = 5.0

_SERVING: Final = HealthCheckResponse.SERVING
_NOT_SERVING: Final = HealthCheckResponse.NOT_SERVING
_UNKNOWN: Final = HealthCheckResponse.SERVICE_UNKNOWN


class HealthService:
    """Answers Check and Watch for the server as a whole and for each of its services; begins as "not serving"."""

    def __init__(
        self, services: frozenset[str], *, is_ready: Callable[[], bool] = lambda: True, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        """Answer for *services*, by their full names, and for the empty name.

        After `set(serving=True)` each answer asks *is_ready* too, which must not wait. A server may become unready
        while the thread that calls `set` hangs.
        """
        self._services = services | {""}
        self._is_ready = is_ready
        self._checks = CallSlots(CHECKS, clock)
        self._watches = CallSlots(WATCHES, clock)
        self._is_serving = False
        self._is_closed = False
        self._changes = 0
        self._changed = threading.Condition()

    def set(self, *, serving: bool) -> None:
        """Tell whether the server serves from now on; each watch hears of a change."""
        with self._changed:
            self._is_serving = serving
            self._note()

    def close(self) -> None:
        """Answer "not serving" once more, and end all watches."""
        with self._changed:
            self._is_serving = False
            self._is_closed = True
            self._note()

    @property
    def slots(self) -> tuple[CallSlots, ...]:
        """The slots of the calls, whose overdue ones the caller ends."""
        return self._checks, self._watches

    @property
    def threads(self) -> int:
        """The most threads that these calls occupy."""
        return CHECKS.total + WATCHES.total

    def check(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> HealthCheckResponse:
        """Answer the only request."""
        slot = entered(self._checks, context)
        try:
            service = _service(requests, context)
        finally:
            self._checks.leave(slot)
        if service not in self._services:
            context.abort(grpc.StatusCode.NOT_FOUND, "this server has no service of that name")
        return HealthCheckResponse(status=self._status(service, is_ready=self._is_ready()))

    def watch(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[HealthCheckResponse]:
        """Answer the only request, now and after each change."""
        slot = entered(self._watches, context)
        try:
            service = _service(requests, context)
            slot.confirm()
            context.add_callback(self._wake)
            told: int | None = None
            while context.is_active():
                seen, is_ready = self._changes, self._is_ready()
                with self._changed:
                    is_last, status = self._is_closed, self._status(service, is_ready=is_ready)
                    if status == told and not is_last and seen == self._changes:
                        self._changed.wait(_LOOK)
                if status != told:
                    told = status
                    yield HealthCheckResponse(status=status)
                if is_last:
                    return
        finally:
            self._watches.leave(slot)

    def _wake(self) -> None:
        with self._changed:
            self._note()

    def _note(self) -> None:
        self._changes += 1
        self._changed.notify_all()

    def _status(self, service: str, *, is_ready: bool) -> int:
        if service not in self._services:
            return _UNKNOWN
        return _SERVING if self._is_serving and is_ready else _NOT_SERVING

    def handlers(self) -> grpc.GenericRpcHandler:
        """Return gRPC's handlers of the service."""
        service = DESCRIPTOR.services_by_name["Health"]
        answer = HealthCheckResponse.SerializeToString
        # With a stream of requests, gRPC hands the call over at once, so the slot counts from the beginning.
        methods: dict[str, grpc.RpcMethodHandler[bytes, HealthCheckResponse]] = {
            "Check": grpc.stream_unary_rpc_method_handler(self.check, response_serializer=answer),
            "Watch": grpc.stream_stream_rpc_method_handler(self.watch, response_serializer=answer),
        }
        return grpc.method_handlers_generic_handler(service.full_name, methods)


def _service(requests: Iterator[bytes], context: grpc.ServicerContext) -> str:
    try:
        return HealthCheckRequest.FromString(next(requests, b"")).service
    except DecodeError:
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the request cannot be read")
