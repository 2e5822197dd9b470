"""The number of standbys that a setting asks for, and the sentences about waiting commits."""

import pytest

from queues.database.standby_facts import StandbyFacts, asked_for


@pytest.mark.parametrize(
    ("setting", "asked"),
    [
        ("", 0),
        ("  ", 0),
        ("*", 1),
        ("b2", 1),
        ("b2, b3", 1),
        ("any", 1),
        ('"2"', 1),
        ("2 (b1, b2, b3)", 2),
        ("FIRST 2 (b1, b2, b3)", 2),
        ("first 1(b2,b3)", 1),
        ("ANY 1 (b2, b3)", 1),
        (" any  3 (*)", 3),
        ("ANY 12 (*)", 12),
        ("first, any", 1),
    ],
)
def test_each_form_of_the_setting_asks_for_a_number(setting: str, asked: int) -> None:
    assert asked_for(setting) == asked


@pytest.mark.parametrize("asked", range(4))
@pytest.mark.parametrize("present", [None, 0, 1, 2, 3])
@pytest.mark.parametrize("waiting", [0.0, 12.4])
def test_a_sentence_comes_exactly_if_too_few_standbys_follow_or_a_commit_waits(
    asked: int, present: int | None, waiting: float
) -> None:
    why = StandbyFacts(asked, present, waiting).why_commits_wait
    too_few = present is not None and present < asked
    assert bool(why) == (too_few or waiting > 0)
    assert why.startswith("commits wait: " if too_few else "commits wait for 12 s" if waiting else "")


def test_the_sentences_name_numbers_and_cure() -> None:
    assert StandbyFacts(1, 0).why_commits_wait == (
        "commits wait: 0 of the 1 synchronous standby servers that synchronous_standby_names asks for are there: "
        "start one, or change the setting"
    )
    assert StandbyFacts(2, 1, 9.0).why_commits_wait == (
        "commits wait: 1 of the 2 synchronous standby servers that synchronous_standby_names asks for are there: "
        "start one, or change the setting"
    )
    assert StandbyFacts(1, 2, 7.0).why_commits_wait == (
        "commits wait for 7 s now, because too few of the synchronous standby servers answer: start one, or change "
        "synchronous_standby_names"
    )
