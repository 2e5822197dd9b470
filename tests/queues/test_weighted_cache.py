"""A cache with a limit of weight."""

import pytest

from queues.weighted_cache import WeightedCache


@pytest.fixture
def cache() -> WeightedCache[str, int]:
    return WeightedCache(10)


def kept(cache: WeightedCache[str, int]) -> str:
    return "".join(name for name in "abcdef" if name in cache)


def test_the_values_used_least_lately_go_until_the_rest_is_light_enough(cache: WeightedCache[str, int]) -> None:
    for name, weight in (("a", 3), ("b", 3), ("c", 3)):
        cache.put(name, weight, weight)
    assert cache.get("a") == 3
    cache.put("d", 4, 4)
    cache.trim()
    assert kept(cache) == "acd"


def test_a_value_above_the_limit_stays_until_the_next_trim(cache: WeightedCache[str, int]) -> None:
    cache.put("a", 1, 11)
    assert cache.get("a") == 1
    cache.trim()
    assert kept(cache) == ""


def test_a_value_that_is_put_again_has_its_new_weight(cache: WeightedCache[str, int]) -> None:
    cache.put("a", 1, 8)
    cache.put("a", 2, 1)
    cache.put("b", 3, 9)
    cache.trim()
    assert (kept(cache), cache.get("a")) == ("ab", 2)


def test_a_cleared_cache_has_room_again(cache: WeightedCache[str, int]) -> None:
    cache.put("a", 1, 10)
    cache.clear()
    assert (cache.get("a"), len(cache)) == (None, 0)
    cache.put("b", 2, 10)
    cache.trim()
    assert kept(cache) == "b"
