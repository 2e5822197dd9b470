"""Tokens across a promotion of a real standby: found where the transaction was kept, refused at once where not."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.orm import Session

import queues
from lr_client import PositionToken, RoutingQueueListener, RoutingQueueSenderClient, wait_applied
from queues.errors import VersionLostError, WaitTimeoutError
from queues.positions import Position
from tests.clusters import Cluster, cluster, site_of
from tests.system.world import World
from tests.waiting import eventually

pytestmark = [pytest.mark.postgresql, pytest.mark.timeout(240)]


class Applied(RoutingQueueListener):
    """Keeps the applied payloads in a table of the sink, and undoes those that the source has lost."""

    client_name = "policy"

    def process_updates_in_log_entry_sync(self, session: Session, source_id: str, entries: Sequence[Any]) -> bool:
        for entry in entries:
            row = {"seq": entry.sequence, "payload": entry.opaque_payload.decode()}
            session.execute(text("INSERT INTO app VALUES (:seq, :payload)"), row)
        return True

    def process_updates_in_snapshot_sync(self, session: Session, source_id: str, entries: Sequence[Any]) -> bool:
        return False

    def on_rollback(self, session: Session, source_id: str, position: Position) -> None:
        session.execute(text("DELETE FROM app WHERE seq > :seq"), {"seq": position.seq})


class Site:
    """Site `paris` on a server with a standby, and its sink `tokyo`."""

    def __init__(self, world: World, primary: Cluster, tokyo: Engine) -> None:
        self.world = world
        self.primary = primary
        self.tokyo = tokyo
        self.client = RoutingQueueSenderClient("policy")
        self.paris = world.engines["paris"] = site_of(primary, "paris")
        self.standby = primary.standby("second")

    def serve(self) -> Any:
        return self.world.server("paris", listen=[], peers={"tokyo": "local:tokyo"}, initial_sync="log")

    def send(self, *payloads: str) -> dict[str, str]:
        """Commit one transaction for each payload; return the tokens."""
        return {payload: self.world.transmit("paris", payload.encode(), to=["tokyo"]) for payload in payloads}

    def applied(self) -> set[str]:
        with self.tokyo.connect() as connection:
            return set(connection.execute(text("SELECT payload FROM app")).scalars())

    def catch_up(self) -> None:
        """Wait until the standby has replayed everything."""
        with self.paris.connect() as connection:
            end = connection.execute(text("SELECT pg_current_wal_insert_lsn()")).scalar_one()
        reader = create_engine(self.standby.url())
        reached = text("SELECT pg_last_wal_replay_lsn() >= CAST(:end AS pg_lsn)")
        with reader.connect() as connection:
            eventually(lambda: connection.execute(reached, {"end": end}).scalar_one())
        reader.dispose()

    def cut_off(self) -> None:
        """End the replication to the standby."""
        self.standby.reload(primary_conninfo="")
        with self.paris.connect() as connection:
            streams = text("SELECT count(*) FROM pg_stat_replication")
            eventually(lambda: connection.execute(streams).scalar_one() == 0)

    def fail_over(self) -> None:
        """Kill the server of `paris` and promote its standby."""
        self.paris.dispose()
        self.primary.kill()
        self.standby.promote()
        self.paris = self.world.engines["paris"] = queues.create_engine(self.standby.url())

    def read_back(self, tokens: dict[str, str]) -> None:
        """Wait for each token at the sink; its entry must be applied then."""
        for payload, token in tokens.items():
            wait_applied(self.tokyo, token, timeout=30)
            assert payload in self.applied()

    def close(self) -> None:
        self.paris.dispose()
        self.standby.stop()


@pytest.fixture
def site(new_site: Any) -> Iterator[Site]:
    with ExitStack() as stack:
        world = World(new_site, stack)
        tokyo = world.site("tokyo")
        with tokyo.begin() as connection:
            connection.execute(text("CREATE TABLE app (seq integer, payload text)"))
        made = Site(world, stack.enter_context(cluster()), tokyo)
        stack.callback(made.close)
        world.server("tokyo", listen=[])
        world.subscribe("tokyo", Applied())  # type: ignore[arg-type]
        with stack.pop_all():
            yield made


@pytest.fixture(params=["sqlite"])
def dialect(request: pytest.FixtureRequest) -> str:
    """Give the database of the sink; the source has a PostgreSQL server of its own."""
    return str(request.param)


def test_an_asynchronous_standby_keeps_some_transactions_and_the_tokens_of_the_others_are_refused_at_once(
    site: Site,
) -> None:
    server = site.serve()
    shared = site.send(*(f"shared {n}" for n in range(20)))
    site.read_back(shared)
    server.stop()
    with Session(site.paris) as session:
        early = str(site.client.transmit_log_entry_message(session, b"early and lost", ["tokyo"]))
        kept = site.send(*(f"kept {n}" for n in range(20)))  # not in a tick yet
        site.catch_up()
        site.cut_off()
        session.commit()
    lost = site.send(*(f"lost {n}" for n in range(150))) | {"early and lost": early}
    server = site.serve()
    site.read_back(lost)
    server.stop()

    site.fail_over()
    new = site.send(*(f"new {n}" for n in range(100)))
    ids = {name: PositionToken.parse(token).transaction for name, token in (lost | new).items()}
    reused = {ids[name] for name in new} & {ids[name] for name in lost}
    assert reused, "the test needs transaction ids that are used twice"
    assert {PositionToken.parse(token).timeline for token in (shared | kept | lost).values()} == {""}
    assert {PositionToken.parse(token).timeline for token in new.values()} == {"00000002"}
    for token in new.values():
        with pytest.raises(WaitTimeoutError):
            wait_applied(site.tokyo, token, timeout=0)

    site.serve()
    later = site.send(*(f"later {n}" for n in range(100)))
    site.read_back(shared | kept | new | later)
    for token in lost.values():
        with pytest.raises(VersionLostError, match="not in the history of 'paris' any more"):
            wait_applied(site.tokyo, token, timeout=60)
        with pytest.raises(VersionLostError, match="not in the history of 'paris' any more"):
            site.client.wait_replicated(site.paris, token, ["tokyo"], timeout=60)
    for token in (shared | kept | new | later).values():
        site.client.wait_replicated(site.paris, token, ["tokyo"], timeout=30)
    assert site.applied() == {*shared, *kept, *new, *later}


def test_with_any_1_no_token_is_refused_and_each_is_read_back(site: Site) -> None:
    site.primary.reload(synchronous_standby_names="ANY 1 (second)")
    with site.paris.connect() as connection:
        is_waiting = text("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'quorum'")
        eventually(lambda: connection.execute(is_waiting).scalar_one() == 1)
    server = site.serve()
    ticked = site.send(*(f"ticked {n}" for n in range(40)))
    site.read_back(ticked)
    server.stop()
    waiting = site.send(*(f"waiting {n}" for n in range(40)))

    site.fail_over()
    new = site.send(*(f"new {n}" for n in range(60)))
    site.serve()
    later = site.send(*(f"later {n}" for n in range(60)))
    tokens = ticked | waiting | new | later
    assert len(tokens) == 200
    site.read_back(tokens)
    for token in tokens.values():
        site.client.wait_replicated(site.paris, token, ["tokyo"], timeout=30)
