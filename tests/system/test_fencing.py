"""Generations at work: one sink's word never stops a site, and a replaced server or a twin is found."""

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Engine

import queues
from lr_server import LogReplicationServer, Settings
from queues.database.transactions import writing
from queues.receive.fences import fences, reset_fences
from queues.wire import replication_pb2 as pb
from sink.protocol.versions import SPOKEN
from tests.system.faulty import PassingSink
from tests.system.world import QUICK, Messages, World, in_log_sync, sessions_of
from tests.waiting import eventually


class StaleSink(PassingSink):
    """Refuses each call as too old once `refuses` is set, and pretends to know the generation above the caller's."""

    refuses = False

    def negotiate(self, request: pb.NegotiateRequest) -> pb.NegotiateResponse:
        if self.refuses:
            return pb.NegotiateResponse(protocol=SPOKEN.oldest, site="rome", refusal=self._refusal(request.session))
        return super().negotiate(request)

    def replicate(self, frames: Iterator[pb.Frame]) -> Iterator[pb.Ack]:
        return super().replicate(self._passed(frames))

    def _passed(self, frames: Iterator[pb.Frame]) -> Iterator[pb.Frame]:
        for frame in frames:
            if self.refuses:
                return
            yield frame

    def _refusal(self, session: pb.SessionId) -> pb.Refusal:
        known = session.generation + 2**40
        return pb.Refusal(kind=pb.Refusal.STALE_LEADER, reason="replaced", known_generation=known)


def generation_of(server: LogReplicationServer) -> int:
    return next(each["generation"] for each in server.status()["owners"] if each["lease"] == "server")


def test_a_sink_that_refuses_each_generation_stops_only_its_own_session(world: World) -> None:
    rome = world.behind("rome", StaleSink)
    heard = world.subscribe("tokyo")
    world.server("tokyo", listen=[])
    peers = {site: f"local:{site}" for site in ("rome", "tokyo")}
    paris = world.server("paris", listen=[], peers=peers, initial_sync="log", slow_retry_seconds=0.1)
    world.transmit("paris", b"before", to=["rome", "tokyo"])
    generation = generation_of(paris)
    in_log_sync(paris, "rome", "tokyo")
    rome.refuses = True
    world.transmit("paris", b"after", to=["rome", "tokyo"])
    told = "another installation uses the site id 'paris'"
    eventually(lambda: sessions_of(paris)["rome"]["state"] == "failed")
    eventually(lambda: world.execute("paris", "SELECT max(leaps) FROM lrq_sessions") == [(6,)], timeout=60)
    eventually(lambda: told in sessions_of(paris)["rome"]["reason"])
    token = world.transmit("paris", b"later", to=["tokyo"])
    world.client.wait_replicated(world.site("paris"), token, ["tokyo"], timeout=20)
    eventually(lambda: heard.log("paris") == [b"before", b"after", b"later"])
    assert (paris.is_owner, generation_of(paris)) == (True, generation)
    assert world.execute("paris", "SELECT leaps FROM lrq_sessions WHERE destination = 'tokyo'") == [(0,)]


def test_a_forged_negotiation_stops_no_session(world: World) -> None:
    servers = {site: world.server(site, listen=[]) for site in ("rome", "tokyo")}
    heard = {site: world.subscribe(site) for site in servers}
    peers = {site: f"local:{site}" for site in servers}
    paris = world.server("paris", listen=[], peers=peers, initial_sync="log", slow_retry_seconds=0.1)
    world.transmit("paris", b"before", to=list(peers))
    eventually(lambda: all(each.log("paris") == [b"before"] for each in heard.values()))
    generation = generation_of(paris)
    forged = pb.SessionId(source="paris", sink="tokyo", client="policy", generation=2**40)
    answer = servers["tokyo"]._writer.negotiate(pb.NegotiateRequest(protocol=SPOKEN.oldest, session=forged))
    assert answer.refusal.kind == pb.Refusal.PROTOCOL
    world.transmit("paris", b"after", to=list(peers))
    eventually(lambda: all(each.log("paris") == [b"before", b"after"] for each in heard.values()))
    assert (paris.is_owner, generation_of(paris)) == (True, generation)
    assert {each["state"] for each in sessions_of(paris).values()} == {"log-entry sync"}


def test_a_plausible_forged_generation_is_outbid_by_its_own_session_only(world: World) -> None:
    tokyo = world.server("tokyo", listen=[])
    heard = world.subscribe("tokyo")
    paris = world.server("paris", listen=[], peers={"tokyo": "local:tokyo"}, initial_sync="log")
    world.transmit("paris", b"before", to=["tokyo"])
    eventually(lambda: heard.log("paris") == [b"before"])
    generation = generation_of(paris)
    forged = pb.SessionId(source="paris", sink="tokyo", client="policy", generation=900)
    answer = tokyo._writer.negotiate(pb.NegotiateRequest(protocol=SPOKEN.oldest, session=forged))
    assert not answer.HasField("refusal")
    world.transmit("paris", b"after", to=["tokyo"])
    eventually(lambda: heard.log("paris") == [b"before", b"after"])
    assert world.execute("tokyo", "SELECT generation FROM lrq_receive_marks") == [(901,)]
    assert (paris.is_owner, generation_of(paris)) == (True, generation)


def test_a_replaced_server_is_refused_by_its_sink_and_stands_down_on_the_word_of_its_own_database(world: World) -> None:
    rome = world.behind("rome", StaleSink)
    world.subscribe("rome")
    # The lease is renewed only after minutes, as if the process had been paused.
    paused = world.server("paris", listen=[], peers={"rome": "local:rome"}, initial_sync="log", lease_seconds=600)
    world.transmit("paris", b"before", to=["rome"])
    in_log_sync(paused, "rome")
    eventually(lambda: sessions_of(paused)["rome"]["acked_seq"] == 1)
    columns = "server, endpoints, started_us, expires_us"
    world.execute("paris", f"INSERT INTO lrq_servers ({columns}) VALUES ('another', '', 0, :ever)", ever=2**62)
    world.execute("paris", "UPDATE lrq_ranges SET generation = generation + 1000, server = 'another'")
    world.execute("paris", "UPDATE lrq_leases SET generation = 2000, owner = 'another' WHERE name = 'server'")
    world.execute("rome", "UPDATE lrq_receive_marks SET generation = 2000, version = version + 1")
    # Perhaps a heartbeat has told the session already that it is replaced.
    for session in paused._source.supervisor.sessions():
        if (stream := session._connection.stream) is not None:
            stream.break_off("the connection broke")
    eventually(lambda: paused.server_status().ranges == 0)
    world.transmit("paris", b"after", to=["rome"])
    eventually(lambda: not paused.is_owner)
    eventually(lambda: "was taken over by generation 2000" in paused.server_status().reason)
    assert not rome.refuses
    assert world.execute("paris", "SELECT lead, leaps FROM lrq_sessions") == [(0, 0)]
    assert world.execute("rome", "SELECT generation FROM lrq_receive_marks") == [(2000,)]


@contextmanager
def both(world: World, sites: Iterable[Engine]) -> Iterator[list[LogReplicationServer]]:
    """Run installations on *sites* that all call themselves paris, and send to the same tokyo."""
    servers, providers = [], []
    for engine in sites:
        # A twin without a provider would wait for its snapshot, and leave the sink to the other.
        provider = Messages(lambda _: [b"state"])
        providers.append(world.client.start_snapshot_transmitter(engine, provider))
        url = engine.url.render_as_string(hide_password=False)
        options = {"peers": {"tokyo": "local:tokyo"}, "clients": ["policy"], "initial_sync": "log"}
        settings = Settings(site_id="paris", database_url=url, **{**QUICK, **options, "slow_retry_seconds": 0.1})
        servers.append(LogReplicationServer(settings))
        servers[-1].start()
    yield servers
    for server in servers:
        server.stop()
    for provider in providers:
        provider.close()


@pytest.fixture
def twins(world: World, new_site: Callable[[str], Engine]) -> Iterator[list[LogReplicationServer]]:
    """Run two installations that both call themselves paris."""
    world.server("tokyo", listen=[])
    with both(world, (world.site("paris"), new_site("paris"))) as servers:
        yield servers


def failed(world: World, twins: list[LogReplicationServer]) -> LogReplicationServer | None:
    """Let each server send an entry; return the one whose session has failed because of the other installation."""
    for server in twins:
        with server._engine.begin() as connection:
            world.client.transmit_log_entry_message(connection, b"x", ["tokyo"])
    told = "another installation uses the site id 'paris'"
    found = (server for server in twins if told in sessions_of(server).get("tokyo", {}).get("reason", ""))
    return next((each for each in found if sessions_of(each)["tokyo"]["state"] == "failed"), None)


def test_twin_installations_are_told_and_an_operator_can_help(
    world: World, twins: list[LogReplicationServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    def spent() -> LogReplicationServer | None:
        server = failed(world, twins)
        if server is None:
            return None
        with server._engine.connect() as connection:
            leaps = connection.exec_driver_sql("SELECT max(leaps) FROM lrq_sessions").scalar_one()
        return server if leaps == 6 else None

    loser = eventually(spent, timeout=60, interval=0.05)
    (winner,) = (server for server in twins if server is not loser)
    assert all(generation_of(server) <= 65 for server in twins)
    ((known,),) = world.execute("tokyo", "SELECT max(generation) FROM lrq_receive_marks")
    assert known <= 65 + 12
    winner.stop()
    with writing(world.site("tokyo")) as connection:
        reset_fences(connection, fences(connection))
    eventually(lambda: sessions_of(loser)["tokyo"]["state"] in ("log-entry sync", "snapshot sync"))


def test_a_copied_file_beside_its_original_is_told(world: World, tmp_path: Path) -> None:
    if world.site("paris").dialect.name != "sqlite":
        pytest.skip("a copied database of PostgreSQL is another incarnation, so its branch is another one")
    world.server("tokyo", listen=[])
    with both(world, [world.site("paris")]) as (original,):
        world.transmit("paris", b"before", to=["tokyo"])
        eventually(lambda: sessions_of(original).get("tokyo", {}).get("acked_seq") == 1)
    with closing(sqlite3.connect(str(world.site("paris").url.database))) as source:
        source.execute("VACUUM INTO ?", (str(tmp_path / "copy.db"),))
    copy = queues.create_engine(f"sqlite:///{tmp_path / 'copy.db'}")
    # The next generation of both is the same one, on the same branch.
    with both(world, [world.site("paris"), copy]) as twins:
        eventually(lambda: failed(world, twins), timeout=60, interval=0.05)
    copy.dispose()


def test_sites_work_with_generations_of_64_bits(world: World) -> None:
    held = "INSERT INTO lrq_leases (name, owner, generation, expires_us) VALUES (:lease, 'before', :held, 0)"
    for site, lease in (
        ("paris", "server"), ("paris", "transmitter/policy"), ("tokyo", "server"), ("tokyo", "subscriber/policy"),
    ):  # fmt: skip
        world.execute(site, held, lease=lease, held=2**40)
    world.provide("paris", Messages(lambda _: [b"state"]))
    heard = world.subscribe("tokyo")
    world.begun("paris", "tokyo")
    paris = world.link("paris", "tokyo")
    in_log_sync(paris, "tokyo")
    world.transmit("paris", b"after", to=["tokyo"])
    eventually(lambda: heard.kinds("paris") == ["start 1", "snapshot 1", "complete 1", "log 1"])
    assert 2**40 < generation_of(paris) <= 2**40 + 65
    ((told,),) = world.execute("tokyo", "SELECT generation FROM lrq_receive_marks")
    assert 2**40 < told <= 2**40 + 65
    leased = dict(world.execute("tokyo", "SELECT name, generation FROM lrq_leases"))
    assert 2**40 < leased["server"] <= 2**40 + 65
    assert leased["subscriber/policy"] == 2**40 + 1
