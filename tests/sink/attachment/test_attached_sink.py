"""The two halves of an attachment: frames and answers, refusals, and the end."""

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Engine

from queues.errors import PeerUnreachableError
from queues.names import site_id
from queues.wire import replication_pb2 as pb
from sink import Sink, SinkWriter
from sink.attachment.attached_sink import AttachedSink
from sink.attachment.attacher import Attacher
from sink.transport.service import FRAME_OVERHEAD
from tests.attached import source
from tests.sink.conftest import Contents, Conversation, accepted, refused, talk, wipe
from tests.sink.frames import FIRST, SECOND, batch, request, session, tick
from tests.waiting import eventually


@pytest.fixture
def contents(tokyo: Callable[[str], Engine]) -> Iterator[Contents]:
    engine = tokyo("sqlite")
    yield Contents(engine)
    wipe(engine)


@pytest.fixture
def writer(contents: Contents) -> SinkWriter:
    return SinkWriter(contents.engine, site_id("tokyo"))


@contextmanager
def attached(sink: Sink, **options: int) -> Iterator[tuple[AttachedSink, Attacher]]:
    """Attach tokyo, whose sink is *sink*; yield the side of paris and that of tokyo."""
    with source(sink) as paris:
        attacher, reached = paris.attacher(sink, **options), paris.sink()
        attacher.start()
        try:
            paris.await_tokyo()
            yield reached, attacher
        finally:
            reached.close()
            attacher.stop()


class Held:
    """A sink that holds each answer until `go_on`; `working` is set before."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.working, self.go_on = threading.Event(), threading.Event()

    def negotiate(self, asked: pb.NegotiateRequest) -> pb.NegotiateResponse:
        return self._sink.negotiate(asked)

    def replicate(self, frames: Iterator[pb.Frame]) -> Iterator[pb.Ack]:
        for ack in self._sink.replicate(frames):
            self.working.set()
            assert self.go_on.wait(60)
            yield ack

    def close(self) -> None:
        """Keep no connection."""


# --- frames and answers -----------------------------------------------------------------------------------------


def test_a_session_of_another_source_is_refused(writer: SinkWriter, contents: Contents) -> None:
    lima = session(source="lima")
    with attached(writer) as (sink, _):
        asked = sink.negotiate(request(lima)).refusal
        sink.negotiate(request())
        sent = refused(list(sink.replicate(iter([batch(0, tick(0, 1, [b"x"]), by=lima)]))))
    assert asked.kind == sent.kind == pb.Refusal.WRONG_SITE
    assert asked.reason == "this call belongs to paris, and carries no session of another site"
    assert contents.queues() == []


def test_a_frame_above_the_limit_of_the_sink_is_refused_as_too_large(writer: SinkWriter, contents: Contents) -> None:
    huge = batch(3, tick(3, 4, [random.Random(1).randbytes(FRAME_OVERHEAD + 1000)]))
    with attached(writer, max_frame_bytes=1000) as (sink, _):
        assert refused(talk(sink, FIRST, huge)).kind == pb.Refusal.TOO_LARGE
    assert len(contents.log()) == 3


def test_an_error_of_the_frames_reaches_the_caller_after_the_frames_before(
    writer: SinkWriter, contents: Contents
) -> None:
    def frames() -> Iterator[pb.Frame]:
        yield FIRST
        raise LookupError("the source could not read on")

    with attached(writer) as (sink, _):
        sink.negotiate(request())
        answers = sink.replicate(frames())
        assert not next(answers).HasField("refusal")
        with pytest.raises(LookupError, match="could not read on"):
            next(answers)
    assert len(contents.log()) == 3


def test_many_sessions_have_streams_at_the_same_time(writer: SinkWriter) -> None:
    with attached(writer) as (sink, _):
        streams = []
        for number in range(20):
            by = session(client=f"client{number}")
            sink.negotiate(request(by))
            streams.append(Conversation(sink))
            accepted([streams[-1].say(batch(0, tick(0, 1, [b"x"]), by=by))])
        for number, stream in enumerate(streams):
            accepted([stream.say(batch(1, tick(1, 2, [b"x"]), by=session(client=f"client{number}")))])
            stream.hang_up()


def test_accepted_frames_count_as_received(writer: SinkWriter) -> None:
    with attached(writer) as (sink, attacher):
        talk(sink, FIRST)
        assert dict(attacher.received.totals) == {("policy", "paris"): FIRST.ByteSize()}


# --- the end ----------------------------------------------------------------------------------------------------


def test_a_sink_that_does_not_answer_a_negotiation_is_unreachable(writer: SinkWriter) -> None:
    go_on = threading.Event()

    class Silent(Held):
        def negotiate(self, asked: pb.NegotiateRequest) -> pb.NegotiateResponse:
            go_on.wait(60)
            return super().negotiate(asked)

    with source(writer) as paris:
        attacher, sink = paris.attacher(Silent(writer)), paris.sink(negotiation_timeout=0.3)
        attacher.start()
        paris.await_tokyo()
        with pytest.raises(PeerUnreachableError, match=r"tokyo has not answered within 0\.3 s"):
            sink.negotiate(request())
        go_on.set()
        attacher.stop()


def test_stopping_the_sink_ends_idle_streams(writer: SinkWriter) -> None:
    with attached(writer) as (sink, attacher):
        sink.negotiate(request())
        stream = Conversation(sink)
        accepted([stream.say(FIRST)])
        attacher.stop()
        attacher.stop()
        with pytest.raises(PeerUnreachableError, match="tokyo ended the stream"):
            stream.say(SECOND)
        stream.hang_up()


def test_stopping_the_sink_finishes_and_acknowledges_a_frame_in_progress(
    writer: SinkWriter, contents: Contents
) -> None:
    held = Held(writer)
    with attached(held) as (sink, attacher):
        sink.negotiate(request())
        stream = sink.replicate(iter([FIRST, SECOND]))
        told: list[pb.Ack | PeerUnreachableError] = []

        def read() -> None:
            try:
                told.extend(stream)
            except PeerUnreachableError as error:
                told.append(error)

        reading = threading.Thread(target=read)
        reading.start()
        assert held.working.wait(60)
        stopping = threading.Thread(target=attacher.stop, kwargs={"grace": 60})
        stopping.start()
        eventually(lambda: not sink._attachments.is_attached(site_id("tokyo")))
        held.go_on.set()
        stopping.join()
        reading.join()
    acknowledged, error = told
    assert isinstance(acknowledged, pb.Ack)
    assert acknowledged.received.seq == 3
    assert "most likely because it stops" in str(error)
    assert len(contents.log()) == 3


def test_no_entry_is_written_after_the_sink_has_stopped(writer: SinkWriter, contents: Contents) -> None:
    with attached(writer) as (sink, attacher):
        sink.negotiate(request())
        stream = sink.replicate(batch(n, tick(n, n + 1, [b"x"])) for n in range(100_000))
        next(stream)
        attacher.stop(grace=0)
        written = len(contents.log())
        with pytest.raises(PeerUnreachableError):
            list(stream)
    assert len(contents.log()) == written


def test_closing_at_the_source_ends_the_stream_at_once(writer: SinkWriter) -> None:
    with attached(writer) as (sink, _):
        sink.negotiate(request())
        stream = Conversation(sink)
        accepted([stream.say(FIRST)])
        outcome: list[PeerUnreachableError] = []

        def listen() -> None:
            with pytest.raises(PeerUnreachableError) as told:
                stream.listen()
            outcome.append(told.value)

        waiting = threading.Thread(target=listen)
        waiting.start()
        sink.close()
        sink.close()
        waiting.join(60)
        stream.hang_up()
        assert "closed on this side" in str(outcome[0])
        with pytest.raises(PeerUnreachableError, match="closed on this side"):
            sink.negotiate(request())


def test_the_streams_of_one_session_end_and_others_go_on(writer: SinkWriter) -> None:
    other = session(client="tenant")
    with attached(writer) as (sink, attacher):
        sink.negotiate(request())
        stream = Conversation(sink)
        accepted([stream.say(FIRST)])
        sink.negotiate(request(other))
        going_on = Conversation(sink)
        accepted([going_on.say(batch(0, tick(0, 1, [b"x"]), by=other))])
        attacher.end_streams("policy", "paris")
        with pytest.raises(PeerUnreachableError, match="tokyo ended the stream"):
            stream.listen()
        accepted([going_on.say(batch(1, tick(1, 2, [b"x"]), by=other))])
        for each in (stream, going_on):
            each.hang_up()
