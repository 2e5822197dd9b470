"""A server looks at the others as soon as something may have changed, and no sooner."""

import pytest

from discovery.look_times import LOOK, until_look, until_retry
from queues.leadership import RangeRow, ServerRow, ServersView

NOW_US = 1_000_000_000
RENEWAL = 3.0


def view(*expiring: float, leader: str = "") -> ServersView:
    """The servers `me`, `1`, `2`, …: the others expire after these seconds, and *leader* leads the only range."""
    others = [ServerRow(str(n), (), 0, NOW_US + int(after * 1e6)) for n, after in enumerate(expiring, start=1)]
    own = ServerRow("me", (), 0, NOW_US + 7_500_000)
    return ServersView(NOW_US, (own, *others), (RangeRow(0, leader, 1),), None, "main")


def pause(seen: ServersView, *, renewal: float = RENEWAL, awaited: bool = False) -> float:
    return until_look(seen, "me", renewal=renewal, awaited=awaited)


def test_a_server_alone_looks_when_it_renews() -> None:
    assert pause(view()) == RENEWAL
    assert pause(view(-1.0)) == RENEWAL, "the other server has expired"


def test_beside_others_a_server_looks_each_second_and_at_its_own_renewal() -> None:
    assert pause(view(5.0)) == LOOK
    assert pause(view(5.0), renewal=0.3) == 0.3


def test_a_server_looks_just_after_a_leader_expires() -> None:
    assert pause(view(0.4, leader="1")) == pytest.approx(0.41)
    assert pause(view(0.4, leader="me")) == LOOK, "a server without a range leaves nothing behind"


def test_a_server_that_waits_for_a_release_looks_often() -> None:
    assert pause(view(5.0), awaited=True) == pytest.approx(0.2)


def test_after_a_failure_a_server_looks_within_a_tenth_of_its_lease() -> None:
    assert until_retry(5.0) == pytest.approx(0.5)
    assert until_retry(3600.0) == LOOK
