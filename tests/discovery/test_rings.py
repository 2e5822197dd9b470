"""Several rings share the keys: equal parts, and halves that move when the number of rings doubles."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery.ring import Ring, token
from discovery.rings import COUNTS, MOST, RingName, Share, check_rings, in_order, ring_name, ring_of, share_of, site_of
from queues.errors import ConfigurationError

DOUBLING = [count for count in COUNTS if 2 * count in COUNTS]


@given(st.text(max_size=40), st.sampled_from(DOUBLING))
def test_a_doubling_moves_a_key_to_one_new_ring_or_not_at_all(key: str, rings: int):
    assert ring_of(key, 2 * rings) - ring_of(key, rings) in (0, rings)


@pytest.mark.parametrize("rings", DOUBLING)
def test_a_doubling_moves_the_upper_half_of_each_part(rings: int):
    moved = {place: ring_of_place(place, 2 * rings) - ring_of_place(place // 2, rings) for place in range(2 * rings)}
    assert moved == {place: rings * (place % 2) for place in range(2 * rings)}


def ring_of_place(place: int, rings: int) -> int:
    """Return the ring of a place, by a key that has a token there."""
    draw = random.Random(place)
    keys = (f"{draw.random()}" for _ in range(100_000))
    return next(ring_of(key, rings) for key in keys if Ring(rings).place(token(key)) == place)


@pytest.mark.parametrize("rings", [2, 3, 6])
def test_rings_get_equal_parts_of_the_keys(rings: int):
    found = Counter(ring_of(f"meter-{number}", rings) for number in range(6_000))
    assert sorted(found) == [*range(rings)]
    assert all(abs(count * rings / 6_000 - 1) < 0.1 for count in found.values())


def test_three_and_six_rings_are_the_members_of_the_ring_of_tokens():
    # Each doubling puts new members between the present ones, so no member moves.
    for rings, order in ((3, [0, 1, 2]), (6, [0, 3, 1, 4, 2, 5])):
        for number in range(200):
            key = f"meter-{number}"
            assert ring_of(key, rings) == order[Ring(rings).owner(key)]


def test_the_ring_of_a_key_never_changes_between_releases():
    keys = ["meter-17", "meter-18", "Zürich", "東京", ""]
    assert [[ring_of(key, rings) for key in keys] for rings in (1, 2, 3, 6)] == [
        [0, 0, 0, 0, 0],
        [0, 0, 0, 0, 1],
        [1, 0, 0, 0, 1],
        [1, 0, 3, 3, 4],
    ]


@pytest.mark.parametrize("rings", [-1, 0, 5, 7, 9, 10, 2 * MOST])
def test_other_numbers_of_rings_are_refused_in_one_sentence(rings: int):
    for refused in (lambda: check_rings(rings), lambda: ring_of("a", rings), lambda: share_of("paris", rings)):
        with pytest.raises(
            ConfigurationError, match=f"{rings} rings cannot share the keys evenly: choose 1, 2, 3, 4, 6"
        ):
            refused()


def test_a_site_id_ends_with_the_number_of_its_ring():
    assert ring_name("paris-1") == RingName("paris", 1)
    assert ring_name("paris-0") == ring_name("paris") == RingName("paris", 0)
    assert ring_name("new-york-12") == RingName("new-york", 12)
    assert ring_name("paris-01") == RingName("paris-01", 0)
    assert ring_name(site_of("paris", 5)) == RingName("paris", 5)


def test_the_rings_of_an_application_are_ordered_by_their_numbers():
    assert in_order(["paris-2", "paris-0", "paris-1"]) == ["paris-0", "paris-1", "paris-2"]
    assert in_order(["paris-1", "paris"]) == ["paris", "paris-1"]
    assert in_order(["hub-7"]) == ["hub-7"]
    twelve = [site_of("paris", number) for number in range(12)]
    assert in_order(sorted(twelve)) == twelve


@pytest.mark.parametrize(
    "sites", [["paris-0", "lima-1"], ["paris-1", "paris-2"], ["paris", "paris-0"], ["paris-0", "paris-2"], ["a", "b"]]
)
def test_rings_without_a_common_name_and_numbers_are_refused(sites: list[str]):
    with pytest.raises(ConfigurationError, match="name 2 rings as paris-0 to paris-1"):
        in_order(sites)


def test_a_share_has_the_keys_of_its_ring_only():
    shares = [share_of(f"paris-{number}", 3) for number in range(3)]
    for number in range(100):
        assert [share.number for share in shares if share.has(f"k{number}")] == [ring_of(f"k{number}", 3)]


def test_a_single_ring_has_every_key_and_any_name():
    assert share_of("hub-7", 1) == Share(0, 1)
    assert share_of("hub-7", 1).has("any")


def test_the_number_of_a_ring_fits_the_number_of_rings():
    with pytest.raises(ConfigurationError, match="paris-3 is the name of ring 3, but the 3 rings count from 0"):
        share_of("paris-3", 3)
