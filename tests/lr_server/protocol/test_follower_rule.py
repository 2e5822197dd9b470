"""Whether producers' messages may be stored: every combination of followers, looks and times."""

from itertools import product

from lr_server.protocol.follower_rule import may_take

_STALL = 60.0


def test_enough_followers_always_allow() -> None:
    for required, more, enough_at in product(range(4), range(3), (None, 0.0, 1000.0)):
        assert may_take(required, required + more, enough_at=enough_at, now=1000.0, stall_seconds=_STALL)


def test_too_few_followers_are_refused_from_the_start_until_a_look_finds_enough() -> None:
    for required in range(1, 4):
        for followers in range(required):
            assert not may_take(required, followers, enough_at=None, now=0.0, stall_seconds=_STALL)


def test_a_gap_is_refused_from_stall_seconds_on_and_not_before() -> None:
    for required in range(1, 4):
        for followers, gap in product(range(required), (0.0, 0.1, _STALL - 0.001, _STALL, _STALL + 0.001, 3600.0)):
            taken = may_take(required, followers, enough_at=500.0, now=500.0 + gap, stall_seconds=_STALL)
            assert taken == (gap < _STALL)
