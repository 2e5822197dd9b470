"""`lrq ring replace`: an empty store for a member whose disk is lost."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, make_url

from discovery.ring_status import RingStatus
from lr_client.producer import Producer
from lr_server.protocol.agreement.generations import RANKS
from lr_server.ring.codec import RingAddress
from lr_server.ring.look import look_at
from lr_server.ring.seat import TOKEN
from queues.database.schema import version
from queues.database.upgrades import downgrade
from queues.errors import LrqError
from tests.lrq.cli.command import Command, Done
from tests.system.ring_servers import RingServers
from tests.waiting import eventually

pytestmark = pytest.mark.timeout(240)

Replace = Callable[..., Done]


@pytest.fixture(params=["sqlite"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def ring(new_site: Callable[[str], Engine], tmp_path: Path) -> Iterator[RingServers]:
    made = RingServers(new_site, tmp_path)
    yield made
    made.close()


@pytest.fixture
def replace(lrq: Command, ring: RingServers, tmp_path: Path) -> Replace:
    members = ", ".join(f'hub-{rank} = "{endpoint}"' for rank, endpoint in enumerate(ring.members))

    def run(member: str, *words: str, rank: int = 2) -> Done:
        settings = ring.settings[rank]
        assert settings.ring is not None
        config = tmp_path / f"{rank}.toml"
        config.write_text(
            f'site_id = "paris"\ndatabase_url = "{settings.database_url}"\nlisten = ["{ring.members[rank]}"]\n'
            f'ingest = true\n[producers."*"]\n[ring]\nmember = "hub-{rank}"\nmembers = {{ {members} }}\n'
            f'witness = "{settings.ring.witness}"\n'
        )
        return lrq("ring", "replace", member, *words, "--config", str(config))

    return run


def state_of(ring: RingServers, rank: int) -> RingStatus | None:
    try:
        return look_at(RingAddress(ring.settings[rank].site_id, TOKEN), ring.members[rank], None)
    except LrqError:
        return None


def works(ring: RingServers) -> bool:
    states = [state_of(ring, rank) for rank in RANKS]
    return [state.role for state in states if state] == ["leading", "following", "following"]


def lose_disk(ring: RingServers, rank: int) -> None:
    ring.close(rank)
    ring.engines[rank].dispose()
    database = make_url(ring.settings[rank].database_url).database
    assert database is not None
    for end in ("", "-wal", "-shm"):
        Path(database + end).unlink(missing_ok=True)


def test_a_lost_disk_is_replaced_and_the_member_copies_the_log(ring: RingServers, replace: Replace):
    ring.begin(*RANKS)
    eventually(lambda: works(ring), timeout=60)
    with Producer(ring.members[0], client="meters", producer="meter") as producer:
        producer.send([(b"kept", ["tokyo"])], timeout=60)
    lose_disk(ring, 2)
    # On a busy machine the two others may choose a leader once more.
    done = eventually(lambda: "wait, or mend" not in (tried := replace("hub-2", "--json")).err and tried, timeout=60)
    assert done.json == {"site": "paris", "rank": 2, "database": ring.settings[2].database_url}
    assert replace("2").out.startswith("rank 2 of the ring paris has an empty store in sqlite:///"), "may be repeated"
    ring.begin(2)
    eventually(lambda: works(ring), timeout=60)
    leader = state_of(ring, 0)
    assert leader is not None
    eventually(lambda: (state := state_of(ring, 2)) and state.newest >= leader.newest, timeout=60)


def test_a_member_that_works_is_not_replaced(ring: RingServers, replace: Replace):
    ring.begin(*RANKS)
    eventually(lambda: works(ring), timeout=60)
    assert "rank 2 (hub-2) works: stop its server before you replace the disk" in replace("hub-2").error


def test_the_command_runs_at_the_machine_of_the_member(ring: RingServers, replace: Replace):
    done = replace("hub-1")
    assert (done.code, done.out) == (1, "")
    assert "the settings here are those of rank 2 (hub-2): run the command at rank 1 (hub-1)" in done.error
    assert "the ring has no member 'hub-7'" in replace("hub-7").error


def test_a_second_disk_is_not_replaced_while_another_member_is_away(ring: RingServers, replace: Replace):
    ring.begin(0)
    eventually(lambda: state_of(ring, 0), timeout=60)
    lost = make_url(ring.settings[2].database_url).database
    assert lost is not None
    ring.engines[2].dispose()
    Path(lost).unlink()
    assert "rank 1 (hub-1) does not answer, and a new store needs both others" in replace("hub-2").error
    assert not Path(lost).exists()


def test_a_store_of_a_member_is_never_replaced(ring: RingServers, replace: Replace):
    ring.begin(*RANKS)
    eventually(lambda: works(ring), timeout=60)
    ring.close(2)
    assert "has the store of a member, and `lrq serve` goes on with it" in replace("hub-2").error


def test_a_store_of_an_older_lrq_is_refused_as_it_is(ring: RingServers, replace: Replace):
    ring.begin(*RANKS)
    eventually(lambda: works(ring), timeout=60)
    ring.close(2)
    with ring.engines[2].begin() as connection:
        downgrade(connection, revision="0027")
    assert "has tables of schema 0027 already, and stays as it is" in replace("hub-2").error
    with ring.engines[2].connect() as connection:
        assert version(connection) == "0027"
