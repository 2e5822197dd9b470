"""The connections of the network's event loop, shared by its sessions; used in the loop's thread only."""

from dataclasses import dataclass, field
from typing import Final

import grpc
import grpc.aio

from queues.wire import replication_pb2 as pb
from sink.transport.channels import ChannelKey, options_of

_SERVICE: Final = f"/{pb.DESCRIPTOR.services_by_name['Replication'].full_name}"


@dataclass(slots=True, eq=False)
class LoopChannel:
    """One connection, and its two calls. Frames come as bytes: the threads that make them also serialize them."""

    key: ChannelKey
    users: int = 0
    channel: grpc.aio.Channel = field(init=False)
    negotiate: "grpc.aio.UnaryUnaryMultiCallable[pb.NegotiateRequest, pb.NegotiateResponse]" = field(init=False)
    replicate: "grpc.aio.StreamStreamMultiCallable[bytes, pb.Ack]" = field(init=False)

    def __post_init__(self) -> None:
        options = options_of(self.key.lane)
        if (pems := self.key.pems) is None:
            self.channel = grpc.aio.insecure_channel(self.key.address, options=options)
        else:
            shown = grpc.ssl_channel_credentials(pems.authority, pems.key, pems.certificate)
            self.channel = grpc.aio.secure_channel(self.key.address, shown, options=options)
        self.negotiate = self.channel.unary_unary(
            f"{_SERVICE}/Negotiate",
            request_serializer=pb.NegotiateRequest.SerializeToString,
            response_deserializer=pb.NegotiateResponse.FromString,
        )
        self.replicate = self.channel.stream_stream(
            f"{_SERVICE}/Replicate", request_serializer=None, response_deserializer=pb.Ack.FromString
        )


_channels: dict[ChannelKey, LoopChannel] = {}


def take(key: ChannelKey) -> LoopChannel:
    """Return the shared connection of *key*; `give_back` it after use."""
    shared = _channels.get(key) or _channels.setdefault(key, LoopChannel(key))
    shared.users += 1
    return shared


async def give_back(shared: LoopChannel, *, is_broken: bool) -> None:
    """Close the connection after its last user; with *is_broken*, new users get another connection."""
    shared.users -= 1
    if (not shared.users or is_broken) and _channels.get(shared.key) is shared:
        del _channels[shared.key]
    if not shared.users:
        await shared.channel.close()
