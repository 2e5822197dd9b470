"""How a server becomes attached, which server gets a call, and why none does."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue

import grpc
import pytest
import trustme

from queues.errors import PeerUnreachableError
from queues.names import SiteId, site_id
from queues.wire import attachment_pb2 as wire
from queues.wire import replication_pb2 as pb
from queues.wire.attachment_pb2_grpc import AttachmentStub
from sink import serve
from sink.attachment.attached_line import AttachTo
from sink.attachment.attacher import Attacher
from sink.attachment.attachments import Attachments
from sink.attachment.source_call import SourceCall
from sink.transport.credentials import Credentials
from sink.transport.endpoints import network_endpoint
from tests.attached import PARIS, TOKYO, Source, source
from tests.certificates import issued
from tests.sink.frames import request
from tests.waiting import eventually


class Answering:
    """A sink that answers each negotiation with its name."""

    def __init__(self, name: str = "") -> None:
        self._name = name

    def negotiate(self, asked: pb.NegotiateRequest) -> pb.NegotiateResponse:
        return pb.NegotiateResponse(site=self._name)

    def replicate(self, frames: Iterator[pb.Frame]) -> Iterator[pb.Ack]:
        for _ in frames:
            yield pb.Ack()

    def close(self) -> None:
        """Keep no connection."""


@contextmanager
def running(attacher: Attacher) -> Iterator[Attacher]:
    attacher.start()
    try:
        yield attacher
    finally:
        attacher.stop()


@contextmanager
def stub_of(paris: Source) -> Iterator[AttachmentStub]:
    with grpc.insecure_channel(paris.endpoint.removeprefix("tcp://")) as channel:
        yield AttachmentStub(channel)


@pytest.fixture
def paris() -> Iterator[Source]:
    with source(Answering()) as made:
        yield made


def trouble(attacher: Attacher) -> str:
    """Return the trouble of an attacher once it has one."""
    with running(attacher):
        return eventually(lambda: attacher.trouble)


# --- attached or not --------------------------------------------------------------------------------------------


def test_a_site_that_is_no_attached_peer_is_told_so(paris: Source) -> None:
    lima = Attacher(Answering(), SiteId("lima"), [AttachTo(PARIS, network_endpoint(paris.endpoint))])
    assert trouble(lima) == (
        f"this server is not attached to paris: {paris.endpoint} does not let this site attach itself: "
        "paris knows no lima"
    )


def test_another_site_than_the_named_source_is_told_so(paris: Source) -> None:
    assert "this is site 'paris', not 'lima': correct `attach` at tokyo" in trouble(
        paris.attacher(Answering(), site_id("lima"))
    )


def test_a_source_of_an_older_lrq_is_told() -> None:
    with serve(Answering(), ["tcp://127.0.0.1:0"]) as older:
        to = [AttachTo(PARIS, network_endpoint(older.endpoints[0]))]
        assert trouble(Attacher(Answering(), TOKYO, to)).endswith("takes no attached sinks: upgrade lrq there")


def test_a_source_that_is_away_is_told_and_attached_to_once_it_is_there(tmp_path: Path) -> None:
    listen = f"ipc://{tmp_path / 'paris.sock'}"
    to = [AttachTo(PARIS, network_endpoint(listen))]
    with running(Attacher(Answering(), TOKYO, to)) as attacher:
        eventually(lambda: f"this server is not attached to paris: {listen} cannot be reached" in attacher.trouble)
        with source(Answering(), listen=listen) as paris:
            paris.await_tokyo()
            eventually(lambda: not attacher.trouble)


def test_only_a_certificate_of_the_site_is_attached(tmp_path: Path) -> None:
    authority = trustme.CA()
    of = {name: made(authority, tmp_path / name, "127.0.0.1", name) for name in ("paris", "tokyo", "lima")}
    with source(Answering(), listen="tls://127.0.0.1:0", credentials=of["paris"]) as paris:
        words = "the certificate shown names '127.0.0.1', 'lima', not site 'tokyo': use one that does"
        assert trouble(paris.attacher(Answering(), credentials=of["lima"])).endswith(words)
        with running(paris.attacher(Answering(), credentials=of["tokyo"])):
            paris.await_tokyo()


def made(authority: trustme.CA, folder: Path, *names: str) -> Credentials:
    folder.mkdir()
    return issued(authority, folder, *names)


# --- which server gets a call -----------------------------------------------------------------------------------


def test_a_call_without_an_attached_server_is_refused_at_once(paris: Source) -> None:
    with pytest.raises(PeerUnreachableError, match="tokyo is not attached to this server: name this server in"):
        paris.sink().negotiate(request())


def test_the_servers_of_a_site_get_calls_by_turns(paris: Source) -> None:
    with running(paris.attacher(Answering("a"))):
        paris.await_tokyo()
        with running(paris.attacher(Answering("b"))):
            eventually(lambda: {paris.sink().negotiate(request()).site for _ in range(4)} == {"a", "b"})
            assert len({paris.sink().negotiate(request()).site for _ in range(2)}) == 2


def test_a_server_that_opens_no_call_is_told_and_comes_last(paris: Source) -> None:
    with stub_of(paris) as stub:
        silent = stub.Attach(wire.AttachRequest(sink="tokyo", server="silent", source="paris"))
        assert next(silent).number == 0
        sink = paris.sink(negotiation_timeout=0.2)
        with pytest.raises(PeerUnreachableError, match=r"tokyo has opened no call within 0\.2 s"):
            sink.negotiate(request())
        with running(paris.attacher(Answering("b"))):
            eventually(lambda: answered(paris))
            assert [paris.sink().negotiate(request()).site for _ in range(3)] == ["b", "b", "b"]
        silent.cancel()


def answered(paris: Source) -> bool:
    try:
        return bool(paris.sink(negotiation_timeout=0.2).negotiate(request()))
    except PeerUnreachableError:
        return False


def test_the_wait_for_a_call_ends_with_the_attachment_of_its_server(paris: Source) -> None:
    asked = wire.AttachRequest(sink="tokyo", server="silent", source="paris")
    with stub_of(paris) as stub, ThreadPoolExecutor(1) as session:
        silent = stub.Attach(asked)
        next(silent)
        negotiated = session.submit(lambda: paris.sink(negotiation_timeout=600).negotiate(request()))
        assert next(silent).number
        silent.cancel()
        with pytest.raises(PeerUnreachableError, match="the attached server of tokyo has ended its attachment"):
            negotiated.result(60)


def test_the_wait_for_a_call_ends_with_the_sink(paris: Source) -> None:
    with stub_of(paris) as stub, ThreadPoolExecutor(1) as session:
        silent = stub.Attach(wire.AttachRequest(sink="tokyo", server="silent", source="paris"))
        next(silent)
        sink = paris.sink(negotiation_timeout=600)
        negotiated = session.submit(lambda: sink.negotiate(request()))
        assert next(silent).number
        sink.close()
        with pytest.raises(PeerUnreachableError, match="the connection to attached:tokyo was closed on this side"):
            negotiated.result(60)
        silent.cancel()


def test_a_call_that_comes_at_the_very_end_of_the_wait_is_ended() -> None:
    ended = threading.Event()
    attachments, call = Attachments(), SourceCall(iter(()), ended.set)
    attachments.attach(TOKYO, "one")

    def wait_in_vain() -> None:
        with attachments.wish(TOKYO, for_snapshots=False, is_slow=False) as wish:
            try:
                wish.wait(0)
            finally:
                numbers.append(wish.number)
                assert attachments.take(wish.number, call)

    numbers: list[int] = []
    with pytest.raises(PeerUnreachableError):
        wait_in_vain()
    assert ended.is_set()
    assert not attachments.take(numbers[0], call)


def test_a_wanted_call_tells_its_connection(paris: Source) -> None:
    with stub_of(paris) as stub:
        attached = stub.Attach(wire.AttachRequest(sink="tokyo", server="raw", source="paris"))
        next(attached)
        for options in ({"for_snapshots": True}, {"is_slow": True}, {}):
            with pytest.raises(PeerUnreachableError):
                paris.sink(negotiation_timeout=0.01, **options).negotiate(request())
            wanted = next(attached)
            assert wanted.number
            assert {name for name in ("for_snapshots", "is_slow") if getattr(wanted, name)} == set(options)
        attached.cancel()


def test_a_server_that_attaches_itself_again_replaces_its_earlier_attachment(paris: Source) -> None:
    asked = wire.AttachRequest(sink="tokyo", server="one", source="paris")
    with stub_of(paris) as stub:
        first = stub.Attach(asked)
        next(first)
        second = stub.Attach(asked)
        next(second)
        assert list(first) == []
        with pytest.raises(PeerUnreachableError, match="has opened no call"):
            paris.sink(negotiation_timeout=0.01).negotiate(request())
        assert next(second).number
        second.cancel()
    eventually(lambda: not paris.attachments.is_attached(TOKYO))


def test_the_calls_of_a_replaced_attachment_end_because_their_connection_is_lost(paris: Source) -> None:
    asked = wire.AttachRequest(sink="tokyo", server="one", source="paris")
    with stub_of(paris) as stub, ThreadPoolExecutor(1) as session:
        first = stub.Attach(asked)
        next(first)
        negotiated = session.submit(lambda: paris.sink(negotiation_timeout=600).negotiate(request()))
        answers: SimpleQueue[wire.FromSink] = SimpleQueue()
        answers.put(wire.FromSink(begin=wire.CallBegin(number=next(first).number)))
        call = stub.Carry(iter(answers.get, None))
        assert next(call).HasField("negotiate")
        second = stub.Attach(asked)
        next(second)
        with pytest.raises(PeerUnreachableError, match="tokyo has lost its connection, and has attached itself again"):
            negotiated.result(60)
        answers.put(None)
        second.cancel()


@pytest.mark.parametrize("first", [wire.FromSink(begin=wire.CallBegin(number=7)), wire.FromSink()])
def test_a_call_for_which_no_session_waits_is_refused(paris: Source, first: wire.FromSink) -> None:
    with stub_of(paris) as stub, pytest.raises(grpc.RpcError) as told:
        list(stub.Carry(iter([first])))
    assert told.value.details() == "no session waits for this call"
