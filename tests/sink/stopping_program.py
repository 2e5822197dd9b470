"""A process with a sink's server that stops itself (SIGSTOP) at a chosen place of its third stored frame.

`python -m tests.sink.stopping_program <database> <place>`; prints its endpoint. A line on its input ends it.
"""

import signal
import sys
import threading

import queues
from queues.names import site_id
from queues.wire import replication_pb2 as pb
from sink import SinkWriter, serve, writer
from sink.inbox import Inbox
from sink.protocol.log_rules import Refuse
from sink.transport.received_frames import ReceivedFrames

#: The places: before the transaction, in it before the rows are stored, and after that. PostgreSQL has committed then.
PLACES = ("before", "inside", "stored")


def stop_at(place: str) -> None:
    """Stop this process once, at *place* of the third frame with ticks."""
    left = [3]

    def stop(frame: pb.Frame, here: str) -> None:
        if here == place and frame.batch.groups:
            left[0] -= 1
            if not left[0]:
                # A signal to the process could arrive a moment later, in another thread.
                signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)

    take, read = writer.take, ReceivedFrames.__next__

    def stopping_take(inbox: Inbox, frame: pb.Frame, limit: int) -> Refuse | None:
        stop(frame, "inside")
        answer = take(inbox, frame, limit)
        stop(frame, "stored")
        return answer

    def stopping_read(frames: ReceivedFrames) -> pb.Frame:
        frame = read(frames)
        stop(frame, "before")
        return frame

    writer.take = stopping_take
    ReceivedFrames.__next__ = stopping_read  # type: ignore[method-assign]


def main() -> None:
    url, place = sys.argv[1:]
    stop_at(place)
    engine = queues.create_engine(url)
    with serve(SinkWriter(engine, site_id("tokyo")), ["tcp://127.0.0.1:0"]) as service:
        print(service.endpoints[0], flush=True)
        sys.stdin.readline()
    engine.dispose()


if __name__ == "__main__":
    main()
