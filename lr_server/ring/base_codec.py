"""The beginning of a trimmed log, and the requests beside it, as messages of the wire."""

from collections.abc import Iterable

from lr_server.ring.tick_codec import check_numbers, decode_tick, encode_tick
from queues.names import ClientName, SiteId
from queues.positions import Position
from queues.send_log.port import SessionKey
from queues.send_log.producers import ProducerKey
from queues.send_log.ring.log_base import BaseBranch, LogBase, StoredRequest
from queues.send_log.ring.tick_contents import LogEnd, TickContent
from queues.wire import ring_pb2 as pb


def encode_base(base: LogBase) -> pb.PullBaseReply:
    """Return the message of *base*."""
    generation, tick = base.end
    return pb.PullBaseReply(
        end=encode_tick(TickContent(generation, tick, 0, {}, ())),
        branches=[
            pb.RingBranch(
                seal=pb.RingTick(generation=each.generation, number=each.seal),
                branch=each.branch,
                start_seq=each.start_seq,
            )
            for each in base.branches
        ],
        trimmed_for=[pb.RingPair(client=each.client, destination=each.destination) for each in base.trimmed_for],
    )


def decode_base(message: pb.PullBaseReply) -> LogBase:
    """Return the beginning of a log; raise `CorruptFrameError` for numbers that no store can hold."""
    content = decode_tick(message.end)
    for each in message.branches:
        check_numbers(each.seal.generation, each.seal.number, each.start_seq)
    return LogBase(
        LogEnd(content.generation, content.tick),
        [BaseBranch(each.seal.generation, each.seal.number, each.branch, each.start_seq) for each in message.branches],
        [SessionKey(ClientName(each.client), SiteId(each.destination)) for each in message.trimmed_for],
    )


def encode_requests(requests: Iterable[StoredRequest]) -> pb.PullRequestsReply:
    """Return the message of *requests*."""
    return pb.PullRequestsReply(requests=map(_encode_request, requests))


def decode_requests(message: pb.PullRequestsReply) -> list[StoredRequest]:
    """Return the requests; raise `CorruptFrameError` for numbers that no store can hold."""
    return [_request(each) for each in message.requests]


def _encode_request(each: StoredRequest) -> pb.RingRequest:
    production = pb.RingProduction(
        client=each.key.client,
        producer=each.key.producer,
        sequence=each.sequence,
        process=each.process,
        first_sequence=each.first,
    )
    return pb.RingRequest(production=production, branch=each.place.branch, entry=each.place.seq)


def _request(message: pb.RingRequest) -> StoredRequest:
    told = message.production
    check_numbers(told.sequence, told.process, told.first_sequence, message.entry)
    key = ProducerKey(ClientName(told.client), told.producer)
    place = Position(message.branch, message.entry)
    return StoredRequest(key, told.sequence, told.process, told.first_sequence, place)
