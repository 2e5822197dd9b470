"""The claims that keep a segment: all combinations of peers and unknown destinations."""

from dataclasses import replace
from itertools import product

import pytest

from queues.names import ClientName, SiteId
from queues.send_log.port import Retention, SessionKey
from queues.send_log.segment_claims import Claim, is_kept

HOUR = 3_600_000_000
RETENTION = Retention(unknown_seconds=3_600.0, peers=frozenset({SiteId("tokyo")}))
PEER = Claim(SessionKey(ClientName("policy"), SiteId("tokyo")), 0, is_unknown=False)
TYPO = Claim(SessionKey(ClientName("policy"), SiteId("tokio")), 0, is_unknown=True)
#: A site that was removed half an hour after the newest tick of the segment.
REMOVED = Claim(SessionKey(ClientName("policy"), SiteId("lima")), 5, is_unknown=True, since_us=HOUR // 2)


@pytest.mark.parametrize("hours", [0.5, 1.2, 2.0, 1_000.0])
@pytest.mark.parametrize(("peer", "typo", "removed"), [*product([False, True], repeat=3)])
def test_a_peer_keeps_a_segment_always_and_an_unknown_destination_for_its_own_time(
    hours: float, peer: bool, typo: bool, removed: bool
) -> None:
    claims = [claim for claim, is_there in ((PEER, peer), (TYPO, typo), (REMOVED, removed)) if is_there]
    kept = is_kept(claims, 0, RETENTION, int(hours * HOUR))
    assert kept == (peer or (typo and hours <= 1.0) or (removed and hours <= 1.5))


def test_a_segment_without_claims_is_not_kept() -> None:
    assert not is_kept([], 0, RETENTION, 0)


@pytest.mark.parametrize("claims", [[], [TYPO], [PEER], [PEER, TYPO]])
@pytest.mark.parametrize("seconds", [0.0, 1.0, 7_200.0, 86_400.0])
@pytest.mark.parametrize("age_us", [-1, 0, 1, 999_999, 1_000_000, 2 * HOUR - 1, 2 * HOUR, 24 * HOUR - 1, 24 * HOUR])
def test_acknowledged_entries_are_kept_for_their_own_time_and_no_longer(
    claims: list[Claim], seconds: float, age_us: int
) -> None:
    retention = replace(RETENTION, acknowledged_seconds=seconds)
    without = is_kept(claims, HOUR, RETENTION, HOUR + age_us)
    assert is_kept(claims, HOUR, retention, HOUR + age_us) is (without or abs(age_us) < seconds * 1_000_000)


def test_a_segment_of_a_much_later_time_is_not_kept_for_replays() -> None:
    # The clock was a year ahead at the tick, and went back.
    assert not is_kept([], 365 * 24 * HOUR, RETENTION, 0)
    assert not is_kept([], 365 * 24 * HOUR, replace(RETENTION, acknowledged_seconds=86_400.0), 0)
    assert is_kept([PEER], 365 * 24 * HOUR, RETENTION, 0), "a site lacks entries"
