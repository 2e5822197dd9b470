"""The frames of a stream, read by a thread of gRPC; their error waits for the stream's own thread."""

from collections.abc import Iterator

from queues.wire import replication_pb2 as pb


class OutgoingFrames:
    """Counts the frames that it has `sent`, and is `finished` at their end; `check` raises an error of *frames*."""

    def __init__(self, frames: Iterator[pb.Frame]) -> None:
        """Read *frames* one at a time."""
        self._frames: Iterator[pb.Frame] | None = frames
        self._error: Exception | None = None
        self.sent = 0
        self.finished = False

    def __iter__(self) -> Iterator[pb.Frame]:
        """Return this iterator."""
        return self

    def __next__(self) -> pb.Frame:
        """Return the next frame; end after an error too."""
        if (frames := self._frames) is None:
            raise StopIteration
        try:
            frame = next(frames)
        except StopIteration:
            self.finished = True
            raise
        except Exception as error:
            self._error = error
            raise StopIteration from error
        self.sent += 1
        return frame

    def release(self) -> None:
        """Read no further frame. Unless another thread reads one now, *frames* end here.

        The error of a broken call names this object in its traceback. Without the release the frames would end with
        the error: late, in a thread that may hold any lock.
        """
        self._frames = None

    def check(self) -> None:
        """Raise the error of the frames, if any."""
        if self._error is not None:
            raise self._error
