"""Servers without work: their membership costs one transaction for each renewal, and no generation."""

import pytest

from lr_server import LogReplicationServer
from queues.database import servers
from tests.discovery.members import counted
from tests.seen_statements import seen_statements
from tests.system.world import World
from tests.waiting import eventually

pytestmark = pytest.mark.long

#: A server renews three times in a lease, so this many leases pass in a test.
LEASES = 3


def renewals(world: World, names: set[str]) -> dict[str, int]:
    """Return the expiry of each server; it moves with each renewal."""
    return {row.server: row.expires_us for row in servers.look(world.site("paris")).servers if row.server in names}


def test_a_server_alone_writes_and_reads_the_tables_of_servers_only_when_it_renews(world: World) -> None:
    server = world.server("paris", listen=[], lease_seconds=3)
    eventually(lambda: server.is_owner and server.server_status().ranges == 64)
    statements = [seen_statements(engine) for engine in (server._engines.work, server._engines.control)]

    def count(start: str, table: str) -> int:
        return sum(each.startswith(start) and table in each for some in statements for each in list(some))

    eventually(lambda: count("UPDATE lrq_servers", "expires_us") >= 3 * LEASES)
    renewed = count("UPDATE lrq_servers", "expires_us")
    # The last renewal may not have looked yet, and a server that stood still looks again. Two looks for each renewal
    # would be too many.
    most = renewed + renewed // 2
    assert count("SELECT", "lrq_ranges") <= most
    assert count("SELECT", "FROM lrq_servers") <= most
    assert count("UPDATE lrq_leases", "expires_us") <= renewed + 3
    # A server that stood still for longer than its row lives takes its ranges again, under another generation.
    for table in ("lrq_ranges", "lrq_generations"):
        assert sum(count(verb, table) for verb in ("UPDATE", "INSERT", "DELETE")) <= 1


def test_a_site_without_peers_does_not_read_again_and_again_which_members_serve(world: World) -> None:
    server = world.server("paris", listen=[], lease_seconds=3)
    eventually(lambda: server.is_owner and server.server_status().ranges == 64)
    statements = [seen_statements(engine) for engine in (server._engines.work, server._engines.control)]

    def count(part: str) -> int:
        return sum(part in each for some in statements for each in list(some))

    eventually(lambda: count("UPDATE lrq_servers") >= LEASES)
    # The sequencer reads them once when it records the known sites.
    assert count("FROM lrq_active_members") <= 1


@pytest.mark.nightly
def test_three_whole_servers_renew_again_and_again_without_a_new_generation(world: World) -> None:
    three: list[LogReplicationServer] = [world.server("paris", listen=[], lease_seconds=15) for _ in range(3)]
    names = {server._roles.name for server in three}
    eventually(lambda: sorted(server.server_status().ranges for server in three) == [21, 21, 22])
    generation, leaders = counted(world.site("paris")), servers.look(world.site("paris")).ranges
    for _ in range(LEASES):
        before = renewals(world, names)
        eventually(lambda before=before: all(at > before[name] for name, at in renewals(world, names).items()))
    assert counted(world.site("paris")) == generation
    assert servers.look(world.site("paris")).ranges == leaders
