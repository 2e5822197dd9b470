"""The choice of a version of the protocol."""

from itertools import product

import pytest

from sink.protocol.versions import ProtocolVersions, newest_common, offered, refusal, unspoken

RANGES = [ProtocolVersions(oldest, newest) for oldest in range(1, 5) for newest in range(oldest, 5)]


@pytest.mark.parametrize(("mine", "theirs"), list(product(RANGES, RANGES)))
def test_both_sides_choose_the_newest_version_that_both_speak(mine: ProtocolVersions, theirs: ProtocolVersions) -> None:
    common = set(range(mine.oldest, mine.newest + 1)) & set(range(theirs.oldest, theirs.newest + 1))
    assert newest_common(mine, theirs) == newest_common(theirs, mine) == max(common, default=None)


@pytest.mark.parametrize(
    ("protocol", "newest", "expected"), [(1, 0, (1, 1)), (1, 3, (1, 3)), (2, 2, (2, 2)), (3, 1, (3, 3))]
)
def test_a_request_offers_its_oldest_version_and_those_up_to_its_newest(
    protocol: int, newest: int, expected: tuple[int, int]
) -> None:
    assert offered(protocol, newest) == expected


@pytest.mark.parametrize(
    ("mine", "theirs", "older"),
    [((1, 2), (3, 4), "the sink tokyo"), ((3, 3), (1, 2), "the source")],
    ids=["the sink is older", "the source is older"],
)
def test_a_refusal_names_the_side_to_upgrade(mine: tuple[int, int], theirs: tuple[int, int], older: str) -> None:
    said = refusal("tokyo", ProtocolVersions(*mine), ProtocolVersions(*theirs))
    assert said.endswith(f"upgrade lrq at {older}")


@pytest.mark.parametrize(("answered", "right"), [(0, False), (1, True), (2, True), (3, False)])
def test_a_source_accepts_only_a_version_that_it_has_offered(answered: int, right: bool) -> None:
    assert (unspoken(answered, ProtocolVersions(1, 2)) is None) is right
