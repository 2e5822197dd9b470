"""Read one request and check it before anything is stored. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from google.protobuf.message import DecodeError

from lr_server.ingest.authorisation import Rule, Use, denial
from lr_server.ingest.refusal import Refusal
from queues.block_limits import COUNTED_FROM, check_parts
from queues.destinations import destination_set
from queues.entry_headers import checked_headers
from queues.entry_keys import checked_key
from queues.errors import CorruptFrameError, PayloadTooLargeError, UsageError
from queues.names import ClientName, client_name, producer_name
from queues.send_log.outbox import NewEntry
from queues.send_log.producers import MAX_SEQUENCE, ProducerKey, Production
from queues.wire import ingest_pb2 as pb

#: The most messages, destinations and other fields of one request, which take up to 60 bytes each.
MAX_FIELDS: Final = 1_000_000
# The most bytes that a request grows by when a server of the site passes it on: the field `hops`.
_HOP_BYTES: Final = 2
# The most names of destinations that a stream remembers.
_REMEMBERED: Final = 64
_MIXED: Final = (
    "a message with `requests` has no other field, no empty request, and at most 256 KiB: send fewer requests at once"
)
_LISTS: Final = frozenset({pb.ProduceRequest.MESSAGES_FIELD_NUMBER, pb.ProduceRequest.REQUESTS_FIELD_NUMBER})


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """The site's rules for requests; sizes are in bytes. Without `clients`, every client is known."""

    request_bytes: int
    payload_bytes: int
    messages: int
    clients: frozenset[str] = frozenset()
    rules: Mapping[str, Rule] = field(default_factory=dict)


def parse(message: bytes, limits: RequestLimits) -> pb.ProduceRequest | Refusal:
    """Return the request in *message*, or why it cannot be read; a large one is counted before it takes memory."""
    if len(message) > limits.request_bytes + _HOP_BYTES:
        return _too_long(message, limits)
    try:
        if len(message) > COUNTED_FROM:
            check_parts(message, _LISTS, MAX_FIELDS)
        request = pb.ProduceRequest.FromString(message)
    except CorruptFrameError:
        return Refusal(
            pb.ProduceRefusal.TOO_LARGE,
            f"the request has more than {MAX_FIELDS} messages, destinations and fields: send fewer messages at once",
        )
    except DecodeError:
        return Refusal(pb.ProduceRefusal.INVALID, f"a request of {len(message)} bytes cannot be read")
    # Each server of the site takes the same requests, also if another one has passed them on.
    return _too_long(message, limits) if len(message) > limits.request_bytes and not request.hops else request


def _too_long(message: bytes, limits: RequestLimits) -> Refusal:
    return Refusal(
        pb.ProduceRefusal.TOO_LARGE,
        f"the request has {len(message)} bytes, the limit is {limits.request_bytes}: send fewer messages at once",
    )


class RequestChecks:
    """Checks the requests of one stream. Most use the same names, so the last allowed names are remembered."""

    def __init__(self, limits: RequestLimits) -> None:
        self._limits = limits
        self._known: tuple[Use, Collection[str] | None, ProducerKey] | None = None

    def check(self, request: pb.ProduceRequest, certified: Collection[str] | None) -> Production | Refusal:
        """Return the checked request, or the refusal for its first problem; *certified* as in `denial`."""
        if request.requests:
            return Refusal(pb.ProduceRefusal.INVALID, _MIXED)
        targets = frozenset(chain.from_iterable(message.destinations for message in request.messages))
        use = Use(request.producer, request.client, targets)
        try:
            key = self._permitted(use, certified)
            if isinstance(key, Refusal):
                return key
            if refusal := _misfit(request, self._limits):
                return refusal
            entries = [_entry(message, key.client, self._limits) for message in request.messages]
        except PayloadTooLargeError as error:
            return Refusal(pb.ProduceRefusal.TOO_LARGE, str(error))
        except UsageError as error:
            return Refusal(pb.ProduceRefusal.INVALID, str(error))
        if len(targets) <= _REMEMBERED:
            self._known = use, certified, key
        return Production(key, request.sequence, entries, request.process, request.first_sequence)

    def _permitted(self, use: Use, certified: Collection[str] | None) -> ProducerKey | Refusal:
        if self._known is not None and self._known[:2] == (use, certified):
            return self._known[2]
        key = ProducerKey(client_name(use.client), producer_name(use.producer))
        if problem := denial(use, self._limits.rules, certified):
            return Refusal(pb.ProduceRefusal.NOT_ALLOWED, problem)
        if self._limits.clients and key.client not in self._limits.clients:
            return Refusal(pb.ProduceRefusal.UNKNOWN_CLIENT, _unknown(key.client, self._limits.clients))
        return key


def _misfit(request: pb.ProduceRequest, limits: RequestLimits) -> Refusal | None:
    if problem := _misnumbered(request):
        return Refusal(pb.ProduceRefusal.INVALID, problem)
    if len(request.messages) <= limits.messages:
        return None
    return Refusal(
        pb.ProduceRefusal.TOO_LARGE,
        f"the request has {len(request.messages)} messages, the limit is {limits.messages}: send fewer at once",
    )


def _unknown(client: str, known: Collection[str]) -> str:
    return f"this site has no client {client!r}: use one of {', '.join(sorted(known))}, or add it to `clients`"


def _misnumbered(request: pb.ProduceRequest) -> str:
    if request.sequence > MAX_SEQUENCE:
        return f"the sequence is above {MAX_SEQUENCE}: count the requests from 1"
    if request.process > MAX_SEQUENCE:
        return f"the number of the process is above {MAX_SEQUENCE}: use a random number of 63 bits"
    if request.process and request.sequence and not 0 < request.first_sequence <= request.sequence:
        return f"the first sequence of the process is {request.first_sequence}: name its first request in all others"
    if request.sequence == 0 and request.messages:
        return "a request with messages needs a sequence: count the requests from 1"
    if request.sequence and not request.messages:
        return f"request {request.sequence} has no messages: add at least one"
    return ""


def _entry(message: pb.ProducedMessage, client: ClientName, limits: RequestLimits) -> NewEntry:
    if len(message.payload) > limits.payload_bytes:
        raise PayloadTooLargeError(len(message.payload), limits.payload_bytes)
    return NewEntry(
        message.payload,
        destination_set(client, message.destinations),
        checked_key(message.item_key, "item_key") if message.HasField("item_key") else None,
        checked_key(message.partition_key, "partition_key") if message.HasField("partition_key") else None,
        checked_headers(dict(message.headers)) if message.headers else None,
    )
