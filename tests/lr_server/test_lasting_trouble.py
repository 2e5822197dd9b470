"""A trouble is shown in the status of the site once it lasts."""

from lr_server.lasting_trouble import LASTS, LastingTrouble


def test_a_trouble_is_told_once_each_look_has_found_one_for_a_while() -> None:
    lasting = LastingTrouble()
    assert [lasting.look("full", now) for now in (5.0, 5.0 + LASTS - 0.1, 5.0 + LASTS)] == ["", "", "full"]


def test_another_reason_goes_on_with_the_same_trouble() -> None:
    lasting = LastingTrouble()
    assert lasting.look("full", 0.0) == ""
    assert lasting.look("gone", LASTS) == "gone"


def test_a_look_without_a_trouble_ends_it() -> None:
    lasting = LastingTrouble()
    assert [lasting.look(word, now) for word, now in (("full", 0.0), ("", 1.0), ("full", LASTS))] == ["", "", ""]
