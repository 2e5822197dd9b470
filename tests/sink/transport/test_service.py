"""The network between source and sink: its endpoints, its faults, its end."""

import os
import random
import socket
import stat
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import grpc
import pytest

from queues.errors import ConfigurationError, PeerUnreachableError, ProtocolError
from queues.names import site_id
from queues.wire import replication_pb2 as pb
from sink import RemoteSink, Sink, SinkWriter, serve
from sink.transport.endpoints import network_endpoint
from sink.transport.loop_sink import LoopSink
from sink.transport.service import FRAME_OVERHEAD
from tests.sink.conftest import Contents, Conversation, accepted, refused, talk, wipe
from tests.sink.exchanged import Exchanged
from tests.sink.frames import FIRST, SECOND, batch, request, session, tick
from tests.waiting import eventually

ANYWHERE = "tcp://127.0.0.1:0"


@pytest.fixture
def contents(tokyo) -> Iterator[Contents]:
    engine = tokyo("sqlite")
    yield Contents(engine)
    wipe(engine)


@pytest.fixture
def writer(contents) -> SinkWriter:
    return SinkWriter(contents.engine, site_id("tokyo"))


@pytest.fixture(params=["threads", "loop"], autouse=True)
def way(request, monkeypatch) -> Iterator[None]:
    """Let the streams have threads of their own, or share those of an event loop."""
    if request.param == "loop":
        with ThreadPoolExecutor(2) as workers:

            def connected(endpoint: str, **options: float) -> Sink:
                return Exchanged(LoopSink(network_endpoint(endpoint), workers, **options))

            monkeypatch.setitem(globals(), "connected", connected)
            yield
    else:
        yield


def connected(endpoint: str, **options: float) -> Sink:
    return RemoteSink(network_endpoint(endpoint), **options)


def dial(endpoint: str, **options: float) -> closing:
    return closing(connected(endpoint, **options))


def answers(sink: Sink) -> bool:
    try:
        return bool(sink.negotiate(request()))
    except PeerUnreachableError:
        return False


class Faulty:
    """A sink that calls *before* with each request and each answer."""

    def __init__(self, sink: Sink, before) -> None:
        self._sink = sink
        self._before = before

    def negotiate(self, request):
        self._before(request)
        return self._sink.negotiate(request)

    def replicate(self, frames):
        for ack in self._sink.replicate(frames):
            self._before(ack)
            yield ack

    def close(self):
        self._sink.close()


# --- endpoints --------------------------------------------------------------------------------------------------


def test_a_sink_listens_at_several_endpoints_and_names_their_real_ports(writer, tmp_path):
    socket_file = f"ipc://{tmp_path / 's.sock'}"
    with serve(writer, [ANYWHERE, socket_file, "tcp://localhost:0"]) as service:
        one, two, three = service.endpoints
        assert two == socket_file
        assert one.startswith("tcp://127.0.0.1:")
        assert three.startswith("tcp://localhost:")
        assert not one.endswith(":0")
        for endpoint in service.endpoints:
            with dial(endpoint) as sink:
                assert sink.negotiate(request()).site == "tokyo"


def test_the_socket_of_a_dead_process_is_replaced(writer, tmp_path):
    path = tmp_path / "s.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    assert path.is_socket()
    with serve(writer, [f"ipc://{path}"]) as service, dial(service.endpoints[0]) as sink:
        assert sink.negotiate(request()).site == "tokyo"
    assert not path.exists()


#: The visibility of a tick beside 2,000 open transactions has this many characters.
LONG_MARK = "1" * 20_000


def test_ticks_beside_very_many_transactions_do_not_end_a_session(writer):
    parts = [tick(seq, seq + 1, [b"x"]) for seq in range(400)]
    for part in parts:
        part.header.mark = LONG_MARK
    with serve(writer, [ANYWHERE]) as service, dial(service.endpoints[0]) as sink:
        accepted(talk(sink, batch(0, *parts)))
        answer = sink.negotiate(request())
        assert (answer.received.seq, answer.headers[0].end_seq) == (400, 400)
        assert answer.ByteSize() < 100_000


def test_the_visibility_of_ticks_in_an_answer_of_an_older_sink_is_accepted(writer):
    class Older(SinkWriter):
        def negotiate(self, request: pb.NegotiateRequest) -> pb.NegotiateResponse:
            answer = super().negotiate(request)
            answer.headers.extend(pb.TickHeader(branch="b1", end_seq=seq, mark=LONG_MARK) for seq in range(256))
            return answer

    older = Older(writer._engine, site_id("tokyo"))
    with serve(older, [ANYWHERE]) as service, dial(service.endpoints[0]) as sink:
        assert len(sink.negotiate(request()).headers) == 256


@pytest.mark.parametrize("name", ["%41.sock", "100%.sock", "a#b?c d.sock", "東京.sock"])
def test_a_socket_has_exactly_the_name_of_its_endpoint(writer, tmp_path, name):
    with serve(writer, [f"ipc://{tmp_path / name}"]) as service, dial(service.endpoints[0]) as sink:
        assert [each.name for each in tmp_path.iterdir()] == [name]
        assert sink.negotiate(request()).site == "tokyo"


@pytest.fixture
def permissive() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def test_only_its_user_may_connect_to_a_socket_even_under_a_permissive_umask(writer, tmp_path, permissive):
    path = tmp_path / "s.sock"
    with serve(writer, [f"ipc://{path}"]):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        # The mask of the process is the earlier one again.
        (tmp_path / "open").touch()
        assert stat.S_IMODE((tmp_path / "open").stat().st_mode) == 0o666


def test_a_socket_is_never_open_to_others_not_even_before_its_mode_is_set(writer, tmp_path, permissive, monkeypatch):
    path = tmp_path / "s.sock"
    monkeypatch.setattr(Path, "chmod", lambda *_: None)
    with serve(writer, [f"ipc://{path}"]):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0


def test_a_socket_or_port_of_a_living_process_is_not_taken(writer, tmp_path):
    socket_file = f"ipc://{tmp_path / 's.sock'}"
    with serve(writer, [socket_file, ANYWHERE]) as service:
        for endpoint in service.endpoints:
            with pytest.raises(ConfigurationError, match="cannot listen at"):
                serve(writer, [endpoint])
            with dial(endpoint) as sink:
                assert sink.negotiate(request()).site == "tokyo"


def test_a_service_that_cannot_listen_at_one_endpoint_leaves_the_others_free(writer, tmp_path):
    socket_file = f"ipc://{tmp_path / 's.sock'}"
    with serve(writer, [ANYWHERE]) as other, pytest.raises(ConfigurationError, match="cannot listen at"):
        serve(writer, [socket_file, other.endpoints[0]])
    with serve(writer, [socket_file]) as service, dial(service.endpoints[0]) as sink:
        assert sink.negotiate(request()).site == "tokyo"


def test_a_file_that_is_not_a_socket_is_not_removed(writer, tmp_path):
    path = tmp_path / "precious"
    path.write_text("data")
    with pytest.raises(ConfigurationError, match="no socket"):
        serve(writer, [f"ipc://{path}"])
    assert path.read_text() == "data"


def test_a_socket_in_a_missing_folder_is_refused(writer):
    with pytest.raises(ConfigurationError, match="cannot listen at"):
        serve(writer, ["ipc:///nowhere/to/be/found.sock"])


def test_a_server_that_cannot_listen_at_an_unknown_host_names_the_host(writer):
    with pytest.raises(ConfigurationError, match=r"the host 'paris\.\.example' is unknown .* correct `listen`"):
        serve(writer, ["tcp://paris..example:7400"])


# --- faults ------------------------------------------------------------------------------------------------------


def test_a_missing_peer_is_unreachable():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        endpoint = f"tcp://127.0.0.1:{unused.getsockname()[1]}"
    with dial(endpoint) as sink:
        with pytest.raises(PeerUnreachableError, match=endpoint):
            sink.negotiate(request())
        with pytest.raises(PeerUnreachableError):
            list(sink.replicate(iter([FIRST])))


def test_a_silent_peer_is_unreachable_after_the_timeout():
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        endpoint = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        words = rf"^{endpoint} has not answered within 0\.3 s"
        with dial(endpoint, negotiation_timeout=0.3) as sink, pytest.raises(PeerUnreachableError, match=words):
            sink.negotiate(request())


def test_a_stream_that_the_sink_ends_for_a_new_negotiation_does_not_count_as_unreachable(writer):
    with serve(writer, [ANYWHERE]) as service, dial(service.endpoints[0]) as sink:
        sink.negotiate(request())
        stream = Conversation(sink)
        accepted([stream.say(FIRST)])
        service.end_streams("policy", "paris")
        with pytest.raises(PeerUnreachableError, match=f"^{service.endpoints[0]} has ended the call"):
            stream.listen()
        stream.hang_up()


def test_a_server_that_is_not_a_sink_gives_a_protocol_error():
    with ThreadPoolExecutor(1) as threads:
        server = grpc.server(threads)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        with dial(f"tcp://127.0.0.1:{port}") as sink, pytest.raises(ProtocolError, match="UNIMPLEMENTED"):
            sink.negotiate(request())
        server.stop(None).wait()


def test_an_internal_error_of_the_sink_reaches_the_source_with_its_text(writer):
    def fail(_):
        raise RuntimeError("a fault of the sink")

    with (
        serve(Faulty(writer, fail), [ANYWHERE]) as service,
        dial(service.endpoints[0]) as sink,
        pytest.raises(ProtocolError, match="a fault of the sink"),
    ):
        sink.negotiate(request())


def test_a_restarted_sink_is_reached_again_by_the_same_client(writer, contents):
    with serve(writer, [ANYWHERE]) as service:
        endpoint = service.endpoints[0]
        sink = connected(endpoint)
        accepted(talk(sink, FIRST))
    with pytest.raises(PeerUnreachableError):
        sink.negotiate(request())

    with serve(writer, [endpoint]), closing(sink):
        eventually(lambda: answers(sink))
        accepted(talk(sink, SECOND))
    assert len(contents.log()) == 5


def raw_stream(endpoint: str, *messages: bytes) -> list[pb.Ack]:
    with grpc.insecure_channel(network_endpoint(endpoint).address) as channel:
        replicate = channel.stream_stream("/lrq.Replication/Replicate", response_deserializer=pb.Ack.FromString)
        return list(replicate(iter(messages)))


def test_a_truncated_message_is_refused_at_every_length(writer, contents):
    whole = FIRST.SerializeToString()
    with serve(writer, [ANYWHERE]) as service:
        writer.negotiate(request())
        for size in range(len(whole)):
            assert refused(raw_stream(service.endpoints[0], whole[:size])).kind in (
                pb.Refusal.CORRUPT,
                pb.Refusal.WRONG_SITE,
                pb.Refusal.PROTOCOL,
            )
            writer.negotiate(request())
    assert contents.log() == []


def test_bytes_that_are_not_a_frame_are_refused_as_corrupt(writer):
    with serve(writer, [ANYWHERE]) as service:
        assert refused(raw_stream(service.endpoints[0], b"\xff\xff\xff")).kind == pb.Refusal.CORRUPT


@pytest.mark.parametrize("field", [b"\x12", b"\x22"], ids=["ticks", "blocks"])
def test_a_frame_of_a_million_empty_parts_is_refused_before_it_is_parsed(writer, field):
    part = b"\x12\x00" if field == b"\x12" else b"\x1a\x00"
    message = field + b"\x80\x80\x80\x01" + part * 2**20
    assert sum(map(len, pb.Frame.FromString(message).ListFields()[0][1].ListFields()[0][1:])) == 2**20
    with serve(writer, [ANYWHERE]) as service:
        refusal = refused(raw_stream(service.endpoints[0], message))
    assert refusal.kind == pb.Refusal.CORRUPT
    assert "more than 65536 ticks or blocks" in refusal.reason


def test_a_message_above_the_limit_of_the_transport_is_refused_as_too_large(writer, contents):
    with serve(writer, [ANYWHERE], max_frame_bytes=1000) as service, dial(service.endpoints[0]) as sink:
        huge = batch(3, tick(3, 4, [random_bytes(FRAME_OVERHEAD + 1000)]))
        assert refused(talk(sink, FIRST, huge)).kind == pb.Refusal.TOO_LARGE
    assert len(contents.log()) == 3


def random_bytes(size: int) -> bytes:
    return random.Random(1).randbytes(size)


def test_an_error_in_the_iterator_of_frames_reaches_the_caller(writer, contents):
    def frames():
        yield FIRST
        raise LookupError("the source could not read on")

    with serve(writer, [ANYWHERE]) as service, dial(service.endpoints[0]) as sink:
        sink.negotiate(request())
        answers = sink.replicate(frames())
        assert not next(answers).HasField("refusal")
        with pytest.raises(LookupError, match="could not read on"):
            next(answers)
    assert len(contents.log()) == 3


def test_sessions_above_the_limit_of_the_sink_are_rejected(writer):
    streams = []

    def begin_another():
        by = session(client=f"client{len(streams)}")
        sink.negotiate(request(by))
        streams.append(Conversation(sink))
        streams[-1].say(batch(0, by=by))

    def begin_many():
        for _ in range(20):
            begin_another()

    with serve(writer, [ANYWHERE], max_streams=1) as service, dial(service.endpoints[0]) as sink:
        with pytest.raises(PeerUnreachableError, match=r"has no slot for the session: .* max_streams"):
            begin_many()
        assert streams
        for stream in streams:
            stream.hang_up()


def test_each_stream_without_a_slot_is_told_so_although_it_writes_when_its_call_ends(writer):
    def told(number: int) -> str:
        by = session(client=f"client{number}")
        with dial(service.endpoints[0]) as other:
            other.negotiate(request(by))
            try:
                list(other.replicate(batch(0, by=by) for _ in range(1_000)))
            except (PeerUnreachableError, ProtocolError) as error:
                return str(error)
        return "it was served"

    with serve(writer, [ANYWHERE], max_streams=1) as service, dial(service.endpoints[0]) as sink:
        sink.negotiate(request())
        held = Conversation(sink)
        accepted([held.say(FIRST)])
        words = [told(number) for number in range(40)]
        held.hang_up()
    assert [each for each in words if "has no slot for the session" not in each] == []


# --- the end -----------------------------------------------------------------------------------------------------


def test_stopping_ends_idle_streams(writer):
    with dial((service := serve(writer, [ANYWHERE])).endpoints[0]) as sink:
        sink.negotiate(request())
        stream = Conversation(sink)
        accepted([stream.say(FIRST)])
        service.stop()
        service.stop()
        with pytest.raises(PeerUnreachableError):
            stream.say(SECOND)
        stream.hang_up()


def test_stopping_finishes_and_acknowledges_a_frame_in_progress(writer, contents):
    working, go_on = threading.Event(), threading.Event()

    def before(answer):
        if isinstance(answer, pb.Ack):
            working.set()
            assert go_on.wait(60)

    with dial((service := serve(Faulty(writer, before), [ANYWHERE])).endpoints[0]) as sink:
        sink.negotiate(request())
        stream = sink.replicate(iter([FIRST, SECOND]))
        told = []
        source = threading.Thread(target=lambda: told.append(next(stream)))
        source.start()
        assert working.wait(60)
        stopping = threading.Thread(target=service.stop, kwargs={"grace": 60})
        stopping.start()
        # A call at the very moment of the stop may wait up to 10 s for its own end.
        eventually(lambda: not answers(sink))
        go_on.set()
        stopping.join()
        source.join()
        assert told[0].received.seq == 3
        with pytest.raises(PeerUnreachableError, match="stops"):
            next(stream)
    assert len(contents.log()) == 3


def test_no_entry_is_written_after_stop_has_returned(writer, contents):
    with dial((service := serve(writer, [ANYWHERE])).endpoints[0]) as sink:
        sink.negotiate(request())
        many = (batch(n, tick(n, n + 1, [b"x"])) for n in range(100_000))
        stream = sink.replicate(many)
        next(stream)
        service.stop(grace=0)
        written = len(contents.log())
        with pytest.raises(PeerUnreachableError):
            list(stream)
    assert len(contents.log()) == written


def test_closing_the_client_ends_its_stream_at_once(writer):
    with serve(writer, [ANYWHERE]) as service:
        sink = connected(service.endpoints[0])
        sink.negotiate(request())
        stream = Conversation(sink)
        accepted([stream.say(FIRST)])
        outcome = []

        def listen():
            with pytest.raises(PeerUnreachableError) as told:
                stream.listen()
            outcome.append(told.value)

        waiting = threading.Thread(target=listen)
        waiting.start()
        sink.close()
        sink.close()
        waiting.join(60)
        stream.hang_up()
        assert outcome
        with pytest.raises(PeerUnreachableError, match="closed on this side"):
            sink.negotiate(request())
        with pytest.raises(PeerUnreachableError, match="closed on this side"):
            list(sink.replicate(iter([FIRST])))
