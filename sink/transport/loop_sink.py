"""A `Sink` behind a network connection, whose streams need no threads while they rest."""

import asyncio
from collections.abc import Callable, Generator
from concurrent.futures import Executor

import grpc
import grpc.aio

from queues.errors import first_line
from queues.wire import replication_pb2 as pb
from sink.rests import Bell, Rest
from sink.transport import call_errors, loop_channels, network_loop
from sink.transport.channels import ChannelKey, Lane
from sink.transport.credentials import Credentials, needed
from sink.transport.endpoints import IpcEndpoint, TcpEndpoint, TlsEndpoint
from sink.transport.loop_channels import LoopChannel
from sink.transport.loop_exchange import Exchange
from sink.transport.remote import NEGOTIATION_TIMEOUT


class LoopSink:
    """See `RestingSink`; the connection is opened at the first use, and again after a failure."""

    def __init__(
        self,
        endpoint: TcpEndpoint | IpcEndpoint,
        workers: Executor,
        *,
        credentials: Credentials | None = None,
        negotiation_timeout: float = NEGOTIATION_TIMEOUT,
        lane: Lane = Lane.LOG,
        count_bytes: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Make the frames in the threads of *workers*; for the other parameters see `RemoteSink`."""
        self._endpoint = endpoint
        self._workers = workers
        self._timeout = negotiation_timeout
        self._count_bytes = count_bytes
        pems = needed(credentials, endpoint).read() if isinstance(endpoint, TlsEndpoint) else None
        self._key = ChannelKey(endpoint.address, pems, lane)
        # The loop's thread alone uses the fields below.
        self._line: LoopChannel | None = None
        self._calls: set[grpc.aio.Call] = set()
        self._is_closed = False

    def negotiate(self, request: pb.NegotiateRequest) -> pb.NegotiateResponse:
        """See `Sink`."""
        return network_loop.run(self._negotiate(request))

    def exchange(
        self,
        steps: Generator[pb.Frame | Rest, None, None],
        bell: Bell,
        note: Callable[[pb.Ack], bool],
        ended: Callable[[BaseException | None], None],
    ) -> None:
        """See `RestingSink`."""
        network_loop.begin(self._exchange(Exchange(steps, bell, note, self._workers, self._count_bytes), ended))

    def close(self) -> None:
        """See `Sink`."""
        if not network_loop.has_begun():
            # Nothing is open, and the machine may have no thread for the loop.
            self._is_closed = True
        elif network_loop.is_here():
            network_loop.begin(self._close())
        else:
            network_loop.run(self._close())

    async def _negotiate(self, request: pb.NegotiateRequest) -> pb.NegotiateResponse:
        call = self._opened().negotiate(request, timeout=self._timeout)
        self._calls.add(call)
        try:
            return await call
        except (grpc.aio.AioRpcError, asyncio.CancelledError) as error:
            raise self._mapped(error) from error
        finally:
            self._calls.discard(call)

    async def _exchange(self, exchange: Exchange, ended: Callable[[BaseException | None], None]) -> None:
        error: BaseException | None = None
        try:
            await self._carried_out(exchange)
        except BaseException as failed:  # noqa: BLE001 - the end of the stream, which its session shows
            error = failed
        try:
            ended(error)
        finally:
            await exchange.release()

    async def _carried_out(self, exchange: Exchange) -> None:
        call = self._opened().replicate()
        self._calls.add(call)
        try:
            if not await exchange.carry_out(call):
                raise call_errors.stopped(self._endpoint)
        except grpc.aio.AioRpcError as error:
            code, details = exchange.first_status(error)
            if self._is_closed or not call_errors.is_too_large(code, details):
                raise self._failed(code, details) from error
            exchange.refuse(pb.Refusal(kind=pb.Refusal.TOO_LARGE, reason=details))
        except asyncio.CancelledError as error:
            # So gRPC tells a call that this side has cancelled, and one that the sink has.
            code, details = exchange.first_status()
            raise self._failed(code, details) from error
        finally:
            self._calls.discard(call)
            call.cancel()

    async def _close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        calls = list(self._calls)
        for call in calls:
            call.cancel()
        line, self._line = self._line, None
        if line is not None:
            # A call was under way, so the connection may be dead without an error.
            await loop_channels.give_back(line, is_broken=bool(calls))

    def _opened(self) -> LoopChannel:
        if self._is_closed:
            raise call_errors.closed(self._endpoint)
        if self._line is None:
            self._line = loop_channels.take(self._key)
        return self._line

    def _mapped(self, error: grpc.aio.AioRpcError | asyncio.CancelledError) -> Exception:
        if isinstance(error, asyncio.CancelledError):
            return self._failed(grpc.StatusCode.CANCELLED, "")
        return self._failed(error.code(), first_line(error.details() or ""))

    def _failed(self, code: grpc.StatusCode, details: str) -> Exception:
        if self._is_closed:
            return call_errors.closed(self._endpoint)
        return call_errors.failed(self._endpoint, code, details, self._timeout)
