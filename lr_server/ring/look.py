"""Ask the members of a ring for their state."""

from typing import Final

import grpc

from discovery.ring_status import RingStatus
from lr_server.ring.codec import RingAddress
from queues.errors import PeerUnreachableError, first_line
from queues.thread_lack import NO_THREAD
from queues.wire import ring_pb2 as pb
from queues.wire.ring_pb2_grpc import RingStub
from sink.transport import core_room
from sink.transport.channels import OPTIONS
from sink.transport.connect_errors import reason
from sink.transport.credentials import Credentials, needed
from sink.transport.endpoints import TlsEndpoint, network_endpoint

#: The longest wait for the answer of a member, in seconds.
PATIENCE: Final = 5.0


def open_channel(endpoint: str, credentials: Credentials | None, *options: tuple[str, int]) -> grpc.Channel:
    """Return a new connection to a member; renewed certificates are read each time.

    Raises `ConfigurationError` for a malformed *endpoint* or unusable *credentials*.
    """
    there, options = network_endpoint(endpoint), (*OPTIONS, *options)
    if not isinstance(there, TlsEndpoint):
        return grpc.insecure_channel(there.address, options=options)
    pems = needed(credentials, there).read()
    shown = grpc.ssl_channel_credentials(pems.authority, pems.key, pems.certificate)
    return grpc.secure_channel(there.address, shown, options=options)


def look_at(address: RingAddress, endpoint: str, credentials: Credentials | None) -> RingStatus:
    """Return the state of the member at *endpoint*; raise `PeerUnreachableError` if it does not tell."""
    if not core_room.is_enough():
        raise PeerUnreachableError(NO_THREAD)
    channel = open_channel(endpoint, credentials)
    try:
        reply = RingStub(channel).Look(pb.LookRequest(site=address.site, token=address.token), timeout=PATIENCE)
    except grpc.RpcError as error:
        raise PeerUnreachableError(f"the member at {endpoint} cannot be asked: {_words(endpoint, error)}") from error
    finally:
        channel.close()
    return decode_status(reply)


def _words(endpoint: str, error: grpc.RpcError) -> str:
    if not isinstance(error, grpc.Call):
        return first_line(error)
    return reason(network_endpoint(endpoint), error.code().name, first_line(error.details() or ""))


def decode_status(reply: pb.LookReply) -> RingStatus:
    """Return the state in *reply*; a member of an earlier version counts one ring and one follower."""
    return RingStatus(
        rank=reply.rank,
        role=reply.role,
        generation=reply.generation,
        leader=reply.leader if reply.HasField("leader") else None,
        newest=reply.newest,
        released=reply.released,
        held=tuple(reply.held),
        alarm=reply.alarm,
        trimmed=reply.trimmed,
        rings=max(reply.rings, 1),
        acknowledging_followers=max(reply.acknowledging_followers, 1),
        silent=tuple(reply.silent),
        fenced_us=reply.fenced_us,
    )


def encode_status(status: RingStatus) -> pb.LookReply:
    """Return the message of *status*."""
    return pb.LookReply(**status.as_json())
