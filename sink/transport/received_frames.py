"""The frames of one stream as they come in: damaged ones, and those of another source, are refused here."""

from collections.abc import Iterator
from typing import Final

from google.protobuf.message import DecodeError

from queues.block_limits import COUNTED_FROM, check_parts
from queues.errors import CorruptFrameError
from queues.logs import logger
from queues.wire import replication_pb2 as pb
from sink.transport.peer_identity import Verify

log = logger("lrq.sink")


class FrameRefusedError(Exception):
    """The frame was refused before it reached the sink."""

    def __init__(self, refusal: pb.Refusal) -> None:
        """Keep the *refusal*, which is the answer."""
        super().__init__(refusal.reason)
        self.refusal = refusal


#: The fields of a frame that hold ticks or blocks.
_LISTS: Final = frozenset(pb.Frame.DESCRIPTOR.fields_by_name[name].number for name in ("batch", "snapshot_chunk"))


class ReceivedFrames:
    """The frames of one stream; `newest` has the client, the source and the bytes of the last one."""

    def __init__(self, messages: Iterator[bytes], verify: Verify) -> None:
        """Parse *messages*, each a frame; *verify* checks its session."""
        self._messages = messages
        self._verify = verify
        self.newest = ("", "", 0)

    def __iter__(self) -> Iterator[pb.Frame]:
        """Return this iterator."""
        return self

    def __next__(self) -> pb.Frame:
        """Return the next frame; raise `FrameRefusedError` for a damaged one, and for that of another source."""
        message = next(self._messages)
        try:
            if len(message) > COUNTED_FROM:
                check_parts(message, _LISTS)
            frame = pb.Frame.FromString(message)
        except CorruptFrameError as error:
            raise FrameRefusedError(corrupt(str(error))) from error
        except DecodeError as error:
            raise FrameRefusedError(corrupt(f"a frame of {len(message)} bytes cannot be read")) from error
        refusal = self._verify(frame.session)
        if refusal is not None:
            log.warning("a session of another site was refused", reason=refusal.reason)
            raise FrameRefusedError(refusal)
        self.newest = (frame.session.client, frame.session.source, len(message))
        return frame


def corrupt(reason: str) -> pb.Refusal:
    """Return the refusal of a message that cannot be read."""
    return pb.Refusal(kind=pb.Refusal.CORRUPT, reason=reason)
