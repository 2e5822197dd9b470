"""The part of a producer that the threaded and the asynchronous one share: requests, futures and outcomes."""

from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Final, Generic, Protocol, TypeVar

import grpc
from google.protobuf.message import DecodeError

from lr_client.producer.answers import Accepted, Declined, FailureCause, Produced, RequestFailure, RequestOutcome
from lr_client.producer.encoding import AnyMessage, ProcessIdentity, answer_of, encoded, numbered, question
from lr_client.producer.failures import error_of
from lr_client.producer.late_outcomes import LateOutcomes
from lr_client.producer.line_patience import LinePatience
from lr_client.producer.machine import Reaction
from lr_client.producer.owner import ProducerOwner
from lr_client.producer.requests import QUESTION, PendingRequest
from lr_client.producer.setup import MAX_IN_FLIGHT, ProducerSetup
from queues.clock import jittered
from queues.errors import LrqError, OutcomeUnknownError, ThreadEndedError, first_line
from queues.logs import logger
from queues.produce_envelope import ENOUGH_BYTES, EXPECTS_LARGE, LARGE_BYTES, packed, replies_in
from queues.thread_lack import PYTHON_ENDS
from queues.wire import ingest_pb2 as pb
from sink.transport.channels import Lane, options_of
from sink.transport.connect_errors import is_silent, reason
from sink.transport.endpoints import IpcEndpoint, TcpEndpoint

#: The method of the service in proto/ingest.proto.
METHOD: Final = "/lrq.Ingest/Produce"
#: The most bytes of a message with replies.
_REPLY_BYTES: Final = 1024 * 1024

_NOT_SERVED: Final = "the server does not serve producers: set `ingest = true` there, or name another endpoint"

log = logger("lrq.producer")


class FutureLike(Protocol):
    """The part that the futures of threads and of asyncio have in common."""

    def set_result(self, result: Produced, /) -> None:
        """End the wait."""

    def set_exception(self, exception: BaseException, /) -> None:
        """End the wait with an error."""

    def done(self) -> bool:
        """Return whether the wait has ended."""
        ...

    def result(self) -> Produced:
        """Return the result, or raise the error."""
        ...


Waiting = TypeVar("Waiting", bound=FutureLike)


class RequestDesk(Generic[Waiting]):
    """Turns calls into requests of the machine, and outcomes into results of futures. Not for several threads."""

    def __init__(self, setup: ProducerSetup, new_future: Callable[[], Waiting]) -> None:
        self.setup = setup
        self.machine = setup.machine
        self.is_closed = False
        self.owner = ProducerOwner()
        self._futures: dict[int, Waiting] = {}
        self._new_future = new_future
        self._keys = count(1)
        self._late = LateOutcomes(max(self.machine.requests.max_requests, MAX_IN_FLIGHT))
        #: Whether a call of `settle` waits. Another one waits for its end, so that each outcome is told once.
        self.is_settling = False
        self._patience = LinePatience(len(setup.order.endpoints))

    @property
    def lane(self) -> Lane:
        """The kind of the next connection."""
        return self.setup.lane(is_slow=self._patience.is_patient)

    def channel_options(self) -> Sequence[tuple[str, int]]:
        """Return the options of an asynchronous connection."""
        return (*options_of(self.lane), ("grpc.max_receive_message_length", _REPLY_BYTES))

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Return the metadata of the next stream: many bytes of requests may be long on their way."""
        return (EXPECTS_LARGE,) if self.machine.requests.bytes >= LARGE_BYTES else ()

    def content(self, messages: Iterable[AnyMessage]) -> bytes:
        """Return the bytes of a request; raise `UsageError` for messages that no site accepts."""
        return encoded(self.setup.client, self.setup.producer, messages, self.setup.payload_bytes)

    def check(self) -> None:
        """Raise the error of a producer that is closed, or that can do nothing more."""
        if self.is_closed:
            raise self.error(RequestFailure(FailureCause.CLOSED))
        if self.machine.end is not None:
            raise self.error(self.machine.end)

    def error(self, failure: RequestFailure) -> LrqError:
        """Return the error for the caller."""
        return error_of(failure, self.setup.producer)

    def may_enter(self, size: int) -> bool:
        """Return whether a request of *size* bytes need not wait: it finds room, or it is refused at once."""
        return self.is_closed or self.machine.end is not None or self.machine.requests.has_room(size)

    def no_room(self) -> LrqError:
        """Return the error of a call that has waited for room in vain."""
        cause, kind = self.machine.trouble
        return self.error(RequestFailure(FailureCause.LATE, reason=cause, kind=kind))

    def submit(self, content: bytes) -> tuple[int, Waiting]:
        """Hand a request to the machine; return its key and its future."""
        key = next(self._keys)
        self.machine.requests.submit(key, content)
        return key, self._awaited(key)

    def ask(self) -> tuple[int, Waiting]:
        """Ask for the last number stored; return the key and the future."""
        key = next(self._keys)
        future = self._awaited(key)
        known = self.machine.ask(key)
        self.tell([known] if known else [])
        return key, future

    def begin_settling(self, *, in_time: bool) -> list[tuple[int, Waiting]]:
        """Await all requests whose outcome is unknown; without *in_time* another call settles still.

        A producer that has ended tells the outcomes that it knows, and then its error.
        """
        if not self._late.are_known:
            self.check()
        if not in_time:
            raise self._still_settling()
        self.is_settling = True
        keys = self.machine.requests.await_again()
        for key in keys:
            self._late.await_again(key)
        waited = [(key, self._awaited(key)) for key in keys]
        if self.is_closed:
            self.close()
        return waited

    def settled(self, waited: Iterable[tuple[int, Waiting]]) -> list[Produced]:
        """End the waits of `begin_settling`; return the stored requests, or raise the first error."""
        unknown = self.end_settling(waited)
        if unknown is not None:
            raise unknown
        return self._late.take()

    def end_settling(self, waited: Iterable[tuple[int, Waiting]]) -> LrqError | None:
        """End the waits of `begin_settling`, and keep their outcomes; return the error of an unknown one."""
        self.is_settling = False
        unknown = None
        for key, future in waited:
            if not future.done():
                self.expire(key)
            try:
                self._late.keep(key, future.result())
            except OutcomeUnknownError as error:
                unknown = unknown or error
            except LrqError as error:
                self._late.keep(key, error)
        return unknown

    def _still_settling(self) -> LrqError:
        first = next(iter(self.machine.requests.numbered), QUESTION)
        return self.error(RequestFailure(FailureCause.UNKNOWN, first.number, "another call of settle waits for it"))

    def expire(self, key: int) -> None:
        """End the wait for a request."""
        outcome = self.machine.expired(key)
        self.tell([outcome] if outcome else [])

    def close(self) -> None:
        """End all waits as those of calls whose time is over, with the reason; nothing more is accepted."""
        self.is_closed = True
        self._end_waits()

    def without_thread(self, why: str) -> Reaction:
        """Take the lack of a thread for a stream; while Python ends, all waits end, because none will start."""
        reaction = self.machine.lost(why)
        if why == PYTHON_ENDS and self._futures:
            log.warning("requests end without an answer", producer=self.setup.producer, reason=why)
            self._end_waits()
        return reaction

    def _end_waits(self) -> None:
        for key in list(self._futures):
            self.expire(key)

    def give_up(self, error: Exception) -> None:
        """End all waits, because *error* has ended the producer's own thread or task."""
        ended = ThreadEndedError(f"the producer has ended by {type(error).__name__}: report this as a bug of lrq")
        ended.__cause__ = error
        self.is_closed = True
        for future in self._futures.values():
            future.set_exception(ended)
        self._futures.clear()

    def take(self, raw: bytes) -> Reaction:
        """Take the bytes of a message with replies, up to the one that ends the stream."""
        try:
            replies = replies_in(pb.ProduceReply.FromString(raw))
        except DecodeError:
            return self.machine.lost("the server sent a reply that cannot be read")
        reaction = Reaction()
        for reply in replies:
            reaction = self._take(answer_of(reply))
            if reaction.ends:
                break
        return reaction

    def _take(self, answer: Accepted | Declined) -> Reaction:
        reaction = self.machine.answered(answer)
        if self.machine.has_stored and isinstance(answer, Accepted) and not reaction.ends:
            self.setup.order.succeeded()
            self._patience.stored()
        self.tell(reaction.outcomes)
        return reaction

    def failed(self, endpoint: TcpEndpoint | IpcEndpoint, code: grpc.StatusCode, details: str) -> Reaction:
        """Take the end of a stream by an error of gRPC."""
        line = first_line(details)
        self._patience.lost(self.machine.bytes_on_the_way(), in_silence=is_silent(line))
        if code is grpc.StatusCode.UNIMPLEMENTED:
            return self.machine.lost(f"{endpoint}: {_NOT_SERVED}")
        if code is grpc.StatusCode.RESOURCE_EXHAUSTED and "larger than max" in line:
            reaction = self.machine.too_large(line)
            self.tell(reaction.outcomes)
            return reaction
        return self.machine.lost(f"{endpoint}: {reason(endpoint, code.name, line)}")

    def pause_after(self, reaction: Reaction) -> float:
        """Go on to the next server after a failure; return the seconds until the next stream."""
        return jittered(self.setup.order.failed(reaction.leader)) if reaction.is_failure else 0.0

    def next_messages(self) -> list[bytes]:
        """Return the next messages to write; each carries requests that wait now, in order."""
        group: list[bytes] = []
        size = 0
        while size < ENOUGH_BYTES and (request := self.machine.next_write()) is not None:
            group.append(self._bytes_of(request))
            size += len(group[-1])
        return list(packed(group))

    def _bytes_of(self, request: PendingRequest) -> bytes:
        identity = ProcessIdentity(self.owner.number, self.machine.first_number)
        if request is QUESTION:
            return question(self.setup.client, self.setup.producer, identity)
        return numbered(request.content, request.number, identity)

    def tell(self, outcomes: Iterable[RequestOutcome]) -> None:
        """End the waits of *outcomes*."""
        for key, result in outcomes:
            future = self._futures.pop(key, None)
            outcome = result if isinstance(result, Produced) else self.error(result)
            if future is None:
                self._log_unheard(result)
                self._late.heard(key, outcome)
                continue
            if isinstance(outcome, OutcomeUnknownError):
                self._late.doubt(key)
            if not future.done():
                if isinstance(outcome, Produced):
                    future.set_result(outcome)
                else:
                    future.set_exception(outcome)

    def _awaited(self, key: int) -> Waiting:
        future = self._futures[key] = self._new_future()
        return future

    def _log_unheard(self, result: Produced | RequestFailure) -> None:
        if isinstance(result, RequestFailure):
            log.warning(
                "a request whose outcome was unknown is not stored",
                producer=self.setup.producer,
                number=result.number,
                reason=str(self.error(result)),
            )
