"""The bytes of requests, and the answers in the bytes of replies. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from lr_client.arguments import checked_payload
from lr_client.producer.answers import Accepted, Declined, DeclineKind
from queues.destinations import destination_set, members
from queues.entry_headers import checked_headers, parse
from queues.entry_keys import checked_key
from queues.errors import UsageError
from queues.names import ClientName
from queues.positions import ORIGIN, Position
from queues.wire import ingest_pb2 as pb


class MessageLike(Protocol):
    """An object with a payload and destinations, such as `ProducerMessage` or `LRMessageWithDestinations`."""

    @property
    def payload(self) -> bytes:
        """The payload."""
        ...

    @property
    def destinations(self) -> Sequence[str]:
        """The ids of the sites."""
        ...

    @property
    def item_key(self) -> str | None:
        """The item that the payload replaces."""
        ...

    @property
    def partition_key(self) -> str | None:
        """The key for routing."""
        ...

    @property
    def headers(self) -> Mapping[str, str] | None:
        """Texts by name that travel with the entry."""
        ...


@dataclass(frozen=True, slots=True)
class ProducerMessage:
    """One payload and its destinations; keys and headers are those of `LRMessageWithDestinations`."""

    payload: bytes
    destinations: Sequence[str]
    item_key: str | None = None
    partition_key: str | None = None
    headers: Mapping[str, str] | None = None


#: A message is also a pair of payload and destinations.
AnyMessage = MessageLike | tuple[bytes, Sequence[str]]


def collected(messages: Iterable[AnyMessage]) -> list[AnyMessage]:
    """Return *messages* as a list; raise `UsageError` for no collection."""
    if isinstance(messages, bytes | str) or not isinstance(messages, Iterable):
        raise UsageError("messages must be a collection: write [(payload, ['tokyo'])]")
    return list(messages)


def encoded(client: ClientName, producer: str, messages: Iterable[AnyMessage], limit: int) -> bytes:
    """Return the bytes of a request without its number; *limit* is for one payload, in bytes.

    Raises the errors of `RoutingQueueSenderClient.transmit_log_entry_messages`, and `UsageError` for no messages.
    """
    checked = [_message(client, each, limit) for each in collected(messages)]
    if not checked:
        raise UsageError("a request needs at least one message")
    return pb.ProduceRequest(client=client, producer=producer, messages=checked).SerializeToString()


def _message(client: ClientName, message: AnyMessage, limit: int) -> pb.ProducedMessage:
    if isinstance(message, tuple):
        if len(message) != 2:
            raise UsageError("a message is a pair (payload, destinations), or an object such as ProducerMessage")
        message = ProducerMessage(*message)
    if not (hasattr(message, "payload") and hasattr(message, "destinations")):
        raise UsageError("a message is a pair (payload, destinations), or an object such as ProducerMessage")
    headers = checked_headers(getattr(message, "headers", None))
    return pb.ProducedMessage(
        payload=checked_payload(message.payload, limit),
        destinations=members(destination_set(client, message.destinations).text),
        item_key=checked_key(getattr(message, "item_key", None), "item_key"),
        partition_key=checked_key(getattr(message, "partition_key", None), "partition_key"),
        headers=None if headers is None else parse(headers),
    )


class ProcessIdentity(NamedTuple):
    """The random number of a producer's process, and the number of its first request; 0 before that is known."""

    process: int
    first: int


def question(client: ClientName, producer: str, identity: ProcessIdentity) -> bytes:
    """Return the bytes of the question for the last number stored."""
    process, first = identity
    return pb.ProduceRequest(
        client=client, producer=producer, process=process, first_sequence=first
    ).SerializeToString()


def numbered(content: bytes, number: int, identity: ProcessIdentity) -> bytes:
    """Return the bytes of the request *content* with its number: protobuf merges fields that follow each other."""
    process, first = identity
    return content + pb.ProduceRequest(sequence=number, process=process, first_sequence=first).SerializeToString()


def answer_of(reply: pb.ProduceReply) -> Accepted | Declined:
    """Return the answer in *reply*; an unknown kind of a later version counts as a refusal for now."""
    if not reply.HasField("refusal"):
        position = Position(reply.position.branch, reply.position.seq) if reply.HasField("position") else ORIGIN
        return Accepted(reply.sequence, position, reply.token)
    kinds = pb.ProduceRefusal.Kind
    name = kinds.Name(reply.refusal.kind) if reply.refusal.kind in kinds.values() else "UNSPECIFIED"
    refusal = reply.refusal
    return Declined(reply.sequence, DeclineKind[name], refusal.reason, refusal.last_sequence, reply.leader)
