"""Site ids that look alike are found."""

import pytest

from queues.look_alikes import look_alikes, warning


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Paris", "paris"), ("PARIS", "paris"), ("tokyo-1", "tokyo_1"), ("tokyo.1", "tokyo-1"), ("site0", "siteO"),
        ("site1", "sitel"), ("\u0440aris", "paris"), ("z\u00fcrich", "zurich"), ("stra\u00dfe", "STRASSE"),
    ],
)  # fmt: skip
def test_names_that_differ_in_case_script_or_sign_look_alike(one: str, other: str) -> None:
    assert look_alikes([one, "lima", other]) == [tuple(sorted((one, other)))]


@pytest.mark.parametrize(
    "names", [["paris", "lima", "tokyo"], ["tokyo-1", "tokyo-2"], ["a", "aa"], ["paris", "paris"], []]
)
def test_other_names_do_not(names: list[str]) -> None:
    assert look_alikes(names) == []


def test_every_pair_of_several_is_named() -> None:
    assert look_alikes(["paris", "Paris", "PARIS"]) == [("PARIS", "Paris"), ("PARIS", "paris"), ("Paris", "paris")]
    assert "'Paris' and 'paris' look alike" in warning(("Paris", "paris"))
