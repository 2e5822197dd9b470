"""Slots for calls: no caller takes the slots of the others, and the one turned away learns why."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

import grpc
import pytest
import trustme

from queues.clock import SYSTEM_CLOCK
from queues.errors import PeerUnreachableError
from queues.names import site_id
from queues.wire import replication_pb2 as pb
from sink import RemoteSink, SinkService, SinkWriter, serve
from sink.transport.call_slots import CallLimits, CallSlot, CallSlots, turned_away
from sink.transport.endpoints import network_endpoint
from sink.transport.peer_identity import caller_of
from tests.certificates import issued
from tests.sink.conftest import Contents, Conversation, accepted, refused, wipe
from tests.sink.frames import FIRST, SECOND, batch, request, session
from tests.sink.silent import SilentCalls
from tests.waiting import eventually

pytestmark = pytest.mark.long

LIMITS = CallLimits(3, 2, 60.0, "sessions", "max_streams", "max_streams_per_caller")


@pytest.fixture
def contents(tokyo) -> Iterator[Contents]:
    engine = tokyo("sqlite")
    yield Contents(engine)
    wipe(engine)


@pytest.fixture
def writer(contents) -> SinkWriter:
    return SinkWriter(contents.engine, site_id("tokyo"))


# --- the decision -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("taken", range(5))
@pytest.mark.parametrize("own", range(5))
@pytest.mark.parametrize("caller", ["", "10.0.0.2"])
def test_a_call_gets_a_room_below_both_limits(taken, own, caller):
    may_enter = taken < 3 and (own < 2 or not caller)
    assert (turned_away(taken, own, caller, LIMITS) == "") is may_enter


def test_the_sentence_names_the_setting_to_raise():
    assert turned_away(2, 2, "10.0.0.2", LIMITS) == (
        "10.0.0.2 has 2 sessions at this site, as many as one caller may have: raise max_streams_per_caller there"
    )
    assert turned_away(3, 0, "10.0.0.2", LIMITS) == (
        "this site has 3 sessions, as many as it serves at one moment: raise max_streams there"
    )


def test_a_room_is_free_again_after_its_call():
    slots = CallSlots(CallLimits(1, 1, 60.0, "sessions"), SYSTEM_CLOCK)
    first = slots.enter("a", lambda: None)
    assert isinstance(first, CallSlot)
    assert isinstance(slots.enter("b", lambda: None), str)
    slots.leave(first)
    slots.leave(first)
    assert isinstance(slots.enter("b", lambda: None), CallSlot)


def test_the_oldest_silent_call_yields_its_slot_and_one_with_a_message_keeps_it():
    slots, ended = CallSlots(LIMITS, SYSTEM_CLOCK), list[str]()
    kept, _, _ = (
        slots.enter_before_silent(name[0], lambda name=name: ended.append(name)) for name in ("a1", "b1", "a2")
    )
    assert isinstance(kept, CallSlot)
    kept.confirm()
    newest = [slots.enter_before_silent(name, lambda: None) for name in ("c", "a")]
    assert all(isinstance(each, CallSlot) for each in newest)
    assert ended == ["b1", "a2"]
    for each in newest:
        assert isinstance(each, CallSlot)
        each.confirm()
    assert isinstance(slots.enter_before_silent("c", lambda: None), str)


CERTIFIED = {"transport_security_type": [b"ssl"], "x509_common_name": [b"paris"]}


@pytest.mark.parametrize(
    ("peer", "shown", "caller"),
    [
        ("ipv4:10.0.0.2:40000", {}, "10.0.0.2"),
        ("ipv6:%5B::1%5D:40000", {}, "[::1]"),
        ("unix:", {}, ""),
        ("unix:/run/lrq.sock", {}, ""),
        ("ipv4:10.0.0.2:40000", CERTIFIED, "the certificate of paris"),
        ("ipv4:10.0.0.2:40000", {"transport_security_type": [b"ssl"]}, "the certificate of no site"),
    ],
)
def test_a_caller_is_a_certificate_or_an_address(peer, shown, caller):
    assert caller_of(peer, shown) == caller


# --- the service --------------------------------------------------------------------------------------------------


@contextmanager
def talking(endpoint: str, **options: object) -> Iterator[Conversation]:
    """Hold a conversation as client `policy`."""
    with closing(RemoteSink(network_endpoint(endpoint), **options)) as sink:
        assert not sink.negotiate(request()).HasField("refusal")
        stream = Conversation(sink)
        yield stream
        stream.hang_up()


@pytest.fixture
def endpoints(writer, tmp_path) -> Iterator[tuple[str, ...]]:
    """A TCP endpoint and a Unix socket of one sink with slot for 20 sessions, 10 for each caller."""
    with serve(writer, ["tcp://127.0.0.1:0", f"ipc://{tmp_path / 's.sock'}"], max_streams=20) as service:
        yield service.endpoints


def test_silent_streams_of_one_caller_leave_rooms_for_others(endpoints):
    tcp, ipc = endpoints
    with closing(SilentCalls(tcp, "Replicate", 60)) as silent:
        eventually(lambda: len(silent.turned_away()) == 50)
        assert {words.partition(":")[0] for words in silent.turned_away()} == {
            "127.0.0.1 has 10 sessions at this site, as many as one caller may have"
        }
        with talking(ipc) as stream:
            accepted([stream.say(FIRST)])
        with closing(RemoteSink(network_endpoint(tcp))) as sink:
            assert not sink.negotiate(request(session(client="other"))).HasField("refusal")


def test_six_hundred_silent_streams_do_not_shut_others_out_of_a_sink_with_default_limits(writer, tmp_path):
    with (
        serve(writer, ["tcp://127.0.0.1:0", f"ipc://{tmp_path / 's.sock'}"]) as service,
        closing(SilentCalls(service.endpoints[0], "Replicate", 600)) as silent,
    ):
        eventually(lambda: len(silent.turned_away()) == 600 - 512)
        with talking(service.endpoints[1]) as stream:
            accepted([stream.say(FIRST)])


def test_silent_negotiations_of_one_caller_do_not_stop_those_of_others(endpoints):
    tcp, ipc = endpoints
    with closing(SilentCalls(tcp, "Negotiate", 120)) as silent:
        eventually(lambda: len(silent.turned_away()) == 120 - 16)
        with talking(ipc) as stream:
            accepted([stream.say(FIRST)])


def test_a_certificate_counts_as_one_caller(writer, tmp_path):
    authority = trustme.CA()
    (tmp_path / "sink").mkdir()
    (tmp_path / "lima").mkdir()
    at_sink, at_lima = issued(authority, tmp_path / "sink"), issued(authority, tmp_path / "lima", "lima")
    ours, theirs, third = (session(client=name) for name in ("ours", "theirs", "third"))
    with (
        serve(writer, ["tls://127.0.0.1:0"], credentials=at_sink, max_streams_per_caller=1) as service,
        closing(RemoteSink(network_endpoint(service.endpoints[0]), credentials=at_sink)) as sink,
        closing(RemoteSink(network_endpoint(service.endpoints[0]), credentials=at_lima)) as lima,
    ):
        for by, of in ((ours, sink), (theirs, lima), (third, lima)):
            assert not of.negotiate(request(by)).HasField("refusal")
        streams = [Conversation(sink), Conversation(lima)]
        accepted([streams[0].say(batch(0, by=ours))])
        accepted([streams[1].say(batch(0, by=theirs))])
        with pytest.raises(PeerUnreachableError, match="the certificate of lima has 1 sessions"):
            list(lima.replicate(iter([batch(0, by=third)])))
        for stream in streams:
            stream.hang_up()


def test_a_session_above_the_limit_learns_why_and_the_others_go_on(writer, tmp_path):
    def session_of(number: int) -> pb.SessionId:
        return session(client=f"client{number}")

    with (
        serve(writer, [f"ipc://{tmp_path / 's.sock'}"], max_streams=3) as service,
        closing(RemoteSink(network_endpoint(service.endpoints[0]))) as sink,
    ):
        streams = []
        for number in range(3):
            sink.negotiate(request(session_of(number)))
            streams.append(Conversation(sink))
            accepted([streams[-1].say(batch(0, by=session_of(number)))])
        sink.negotiate(request(session_of(3)))
        with pytest.raises(PeerUnreachableError, match=r"has no slot .* this site has 3 sessions.* raise max_streams"):
            list(sink.replicate(iter([batch(0, by=session_of(3))])))
        for number, stream in enumerate(streams):
            accepted([stream.say(batch(0, by=session_of(number)))])
        streams.pop().hang_up()
        sink.negotiate(request(session_of(3)))

        def gets_the_room() -> bool:
            sink.negotiate(request(session_of(3)))
            try:
                return bool(accepted(list(sink.replicate(iter([batch(0, by=session_of(3))])))))
            except PeerUnreachableError:
                return False

        eventually(gets_the_room)
        for stream in streams:
            stream.hang_up()


@pytest.fixture
def impatient(writer) -> Iterator[SinkService]:
    # A busy machine stands still for seconds before the first frame of the stream that has one.
    with serve(writer, ["tcp://127.0.0.1:0"], first_frame_seconds=5.0) as service:
        yield service


def test_a_stream_without_a_first_frame_is_ended_and_one_with_a_frame_is_not(impatient, caplog):
    with (
        talking(impatient.endpoints[0]) as stream,
        closing(SilentCalls(impatient.endpoints[0], "Replicate", 3)) as silent,
    ):
        accepted([stream.say(FIRST)])
        eventually(lambda: all(call.done() for call in silent.calls))
        assert {call.code() for call in silent.calls} == {grpc.StatusCode.CANCELLED}
        accepted([stream.say(SECOND)])
    assert "a call without a valid message was ended" in caplog.text


def test_a_stream_whose_frames_are_refused_keeps_no_room(impatient):
    with closing(RemoteSink(network_endpoint(impatient.endpoints[0]))) as sink:
        assert refused(list(sink.replicate(iter([FIRST])))).kind == pb.Refusal.NO_STREAM_BEGIN
    with talking(impatient.endpoints[0]) as stream:
        accepted([stream.say(FIRST)])


def test_a_compressed_message_is_not_taken(endpoints):
    with grpc.insecure_channel(network_endpoint(endpoints[0]).address, compression=grpc.Compression.Gzip) as channel:
        negotiate = channel.unary_unary("/lrq.Replication/Negotiate")
        with pytest.raises(grpc.RpcError) as told:
            negotiate(bytes(10_000), timeout=60)
    assert told.value.code() is grpc.StatusCode.UNIMPLEMENTED
