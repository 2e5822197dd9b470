"""Sites that speak different versions of the protocol."""

from lr_server import LogReplicationServer
from queues.states import SessionState
from queues.wire.replication_pb2 import NegotiateRequest, NegotiateResponse
from sink.protocol.versions import SPOKEN, ProtocolVersions
from sink.writer import SinkWriter
from tests.system.faulty import PassingSink
from tests.system.world import World, sessions_of
from tests.waiting import eventually


class OtherVersions(PassingSink):
    """Speaks the given versions instead of the sink's own."""

    def __init__(self, sink: SinkWriter, spoken: ProtocolVersions) -> None:
        super().__init__(sink)
        sink._spoken = spoken


class Disobedient(PassingSink):
    """Chooses a version that was not offered."""

    def negotiate(self, request: NegotiateRequest) -> NegotiateResponse:
        answer = self._sink.negotiate(request)
        answer.protocol = SPOKEN.newest + 1
        return answer


def _reason(server: LogReplicationServer) -> str:
    return str(sessions_of(server).get("tokyo", {}).get("reason", ""))


def test_a_source_works_with_a_sink_that_also_speaks_newer_versions(world: World) -> None:
    spoken = ProtocolVersions(SPOKEN.newest, SPOKEN.newest + 3)
    world.behind("tokyo", lambda sink: OtherVersions(sink, spoken))
    heard = world.subscribe("tokyo")
    world.server("paris", peers={"tokyo": "local:tokyo"}, initial_sync="log")
    world.transmit("paris", b"e1", to=["tokyo"])
    eventually(lambda: heard.log("paris") == [b"e1"])


def test_the_status_names_the_site_to_upgrade_and_the_session_goes_on_after_that(world: World) -> None:
    newer = ProtocolVersions(SPOKEN.newest + 1, SPOKEN.newest + 1)
    tokyo = world.behind("tokyo", lambda sink: OtherVersions(sink, newer))
    heard = world.subscribe("tokyo")
    paris = world.server("paris", peers={"tokyo": "local:tokyo"}, initial_sync="log", slow_retry_seconds=0.1)
    world.transmit("paris", b"e1", to=["tokyo"])
    eventually(lambda: _reason(paris).endswith("upgrade lrq at the source"))
    tokyo._sink._spoken = SPOKEN
    eventually(lambda: heard.log("paris") == [b"e1"])


def test_a_sink_that_chooses_a_version_that_was_not_offered_is_refused(world: World) -> None:
    world.behind("tokyo", Disobedient)
    paris = world.server("paris", peers={"tokyo": "local:tokyo"}, initial_sync="log")
    world.transmit("paris", b"e1", to=["tokyo"])
    eventually(lambda: "upgrade lrq at the sink" in _reason(paris))
    assert sessions_of(paris)["tokyo"]["state"] != SessionState.LOG_ENTRY_SYNC
