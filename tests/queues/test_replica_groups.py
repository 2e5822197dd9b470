"""Groups of replicas: wrong ones are refused, and every member is owed the same."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.errors import LrqError
from queues.names import SiteId
from queues.replica_groups import checked_groups, group_of, named_sites, owed_sites

PEERS = ("tokyo-a", "tokyo-b", "lima-a", "lima-b", "rome")
GROUPS = checked_groups({"tokyo": ["tokyo-a", "tokyo-b"], "lima": ["lima-b", "lima-a"]}, PEERS)

#: Wrong tables, and the beginning of the sentence about each.
WRONG: Sequence[tuple[Mapping[str, Sequence[str]], str]] = [
    ({"tokyo": []}, "replicas[tokyo] has no member: name its sites, or remove the group"),
    ({"rome": ["tokyo-a"]}, "replicas[rome] has the name of a peer: give the group a name of its own"),
    ({"tokyo": ["tokyo-a", "oslo"]}, "replicas[tokyo]: 'oslo' is no peer: add the site to peers first"),
    ({"tokyo": ["tokyo-a", "tokyo-a"]}, "replicas[tokyo]: 'tokyo-a' is there twice: name each site once"),
    (
        {"east": ["tokyo-a"], "tokyo": ["tokyo-a"]},
        "replicas[tokyo]: 'tokyo-a' is in replicas[east] too: name each site once",
    ),
    (
        {"all": ["tokyo"], "tokyo": ["tokyo-a"]},
        "replicas[all]: 'tokyo' is a group itself: name its members instead",
    ),
    ({"a": ["b"], "b": ["a"]}, "replicas name each other in a circle (a -> b -> a): name sites as members"),
    ({"a": ["b"], "b": ["c"], "c": ["a"]}, "replicas name each other in a circle (a -> b -> c -> a)"),
    ({"a": ["a"]}, "replicas name each other in a circle (a -> a)"),
    ({"to kyo": ["tokyo-a"]}, "'to kyo' is not a valid site id"),
    ({"tokyo": ["to kyo"]}, "'to kyo' is not a valid site id"),
    ({"tokyo": "tokyo-a"}, 'replicas[tokyo] must be a list of sites, such as ["tokyo-a", "tokyo-b"]'),
]


@pytest.mark.parametrize(("written", "words"), WRONG)
def test_a_wrong_table_is_refused_in_one_sentence(written: Mapping[str, Sequence[str]], words: str) -> None:
    with pytest.raises(LrqError) as caught:
        checked_groups(written, PEERS)
    assert str(caught.value).startswith(words)


def test_the_members_keep_the_order_in_which_they_are_written() -> None:
    assert GROUPS == {"lima": ("lima-b", "lima-a"), "tokyo": ("tokyo-a", "tokyo-b")}
    assert group_of(SiteId("lima-a"), GROUPS) == "lima"
    assert group_of(SiteId("rome"), GROUPS) is None


@given(st.sets(st.sampled_from([*PEERS, "tokyo", "lima"]), min_size=1))
def test_all_members_of_a_group_are_owed_the_same_entries(destinations: set[str]) -> None:
    owed = owed_sites(map(SiteId, destinations), GROUPS)
    for name, members in GROUPS.items():
        is_owed = not destinations.isdisjoint({name, *members})
        assert {member in owed for member in members} == {is_owed}
        assert name not in owed
    assert ("rome" in owed) == ("rome" in destinations)
    assert list(owed) == sorted(set(owed))


@pytest.mark.parametrize(
    ("names", "sites"),
    [
        (["tokyo"], ("tokyo-a", "tokyo-b")),
        (["tokyo-a"], ("tokyo-a",)),
        (["tokyo", "tokyo-a", "rome"], ("rome", "tokyo-a", "tokyo-b")),
        ([], ()),
    ],
)
def test_a_name_stands_for_its_members_and_a_member_for_itself(names: list[str], sites: tuple[str, ...]) -> None:
    assert named_sites(map(SiteId, names), GROUPS) == sites
