"""A primary dies, and a synchronous standby is promoted: servers, writers and subscribers go on by themselves."""

from collections.abc import Iterator
from contextlib import ExitStack
from signal import SIGKILL, SIGQUIT
from typing import Any, Final

import pytest

from lrq.cli import link_actions
from lrq.cli.health import troubles
from lrq.cli.links import list_links
from queues.errors import StoreUnavailableError
from queues.names import SiteId
from tests.lrq.cli.command import Command
from tests.system.standby_sites import END, LEASE_SECONDS, Sites
from tests.system.world import World
from tests.waiting import eventually

pytestmark = [pytest.mark.postgresql, pytest.mark.long, pytest.mark.processes, pytest.mark.timeout(500)]

_ROUNDS: Final = 10
_WHY: Final = "commits wait: 0 of the 1 synchronous standby servers that synchronous_standby_names asks for are there"


@pytest.fixture(params=["sqlite"])
def dialect(request: pytest.FixtureRequest) -> str:
    """Give the database of the other site."""
    return str(request.param)


@pytest.fixture(params=["paris", pytest.param("tokyo", marks=pytest.mark.nightly)])
def sites(request: pytest.FixtureRequest, new_site: Any) -> Iterator[Sites]:
    with ExitStack() as stack:
        world = World(new_site, stack)
        made = Sites(world, stack, request.param)
        with stack.pop_all():
            yield made


def test_two_primaries_die_and_every_acknowledged_transmit_arrives_once_in_order(sites: Sites) -> None:
    for number in (SIGKILL, SIGQUIT):
        for _ in range(_ROUNDS):
            sites.writer.more(2)
            sites.read_back()
        dead = sites.servers.kill_primary(number)
        sites.writer.more(5)
        for _ in range(_ROUNDS):
            sites.writer.more(2)
            sites.read_back()
        sites.servers.rebuild(dead)
        sites.servers.await_synchronous(2)
    sites.check()


def test_without_standbys_commits_wait_the_status_tells_why_and_one_standby_lets_all_go_on(
    sites: Sites, capsys: pytest.CaptureFixture[str]
) -> None:
    spare = sites.stand_by()
    sites.writer.more(20)
    sites.read_back()
    sites.servers.stop("b2", "b3")
    eventually(lambda: not sites.owner().alive, timeout=60)
    eventually(lambda: sites.waiting_seconds() > 2 * LEASE_SECONDS, timeout=60)
    told = Command(capsys)("status", "--database", sites.servers.url())
    assert (told.code, _WHY in " ".join(told.out.split())) == (3, True), told.out
    for server in (sites.server, spare):
        assert troubles(server.site_status())[0].startswith(_WHY)
    applied = sites.applied()
    sites.servers.start("b3")
    eventually(lambda: sites.owner().alive, timeout=60)
    # A spare server may take over once, but no two servers go on to take the lease from each other.
    eventually(sites.keeps_its_owner, timeout=60)
    sites.check()
    assert sites.applied()[: len(applied)] == applied


def test_a_link_that_ends_drains_through_a_promotion_and_its_end_is_last(sites: Sites) -> None:
    sites.writer.more(50)
    link_actions.end(sites.paris, SiteId("tokyo"), None)
    sites.servers.kill_primary(SIGKILL)
    eventually(lambda: sites.applied()[-1:] == [END], timeout=90)
    sites.writer.stop()
    *applied, _ = sites.applied()
    assert applied == sorted(set(applied))
    assert set(sites.writer.tokens) <= set(applied) <= set(sites.writer.tokens) | sites.writer.unknown
    eventually(lambda: _link_states(sites) == ["ended"])
    assert not sites.listener.undone


def _link_states(sites: Sites) -> list[str]:
    try:
        return [link.state for link in list_links(sites.paris).outgoing]
    except StoreUnavailableError:
        return []  # over a connection to the dead primary
