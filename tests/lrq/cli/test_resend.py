"""`lrq resend`: sends a range of entries again, lists, continues and cancels orders."""

import re

import pytest

from lr_client import resend_entries
from lrq.cli.person import person
from queues.database import actions
from tests.lrq.cli.command import Command
from tests.lrq.cli.source import SourceSite
from tests.resending import interrupted


@pytest.fixture
def resend(lrq: Command, source: SourceSite):
    """Give a function that runs a command of `lrq resend` on a site with three entries for tokyo."""
    source.session("tokyo")
    for number in range(3):
        source.transmit(b"entry %d" % number, to=["tokyo"])
        source.tick()
    return lambda command, *arguments: lrq("resend", command, *arguments, "--database", source.url)


BEGIN = ("begin", "policy", "tokyo", "--from", "2", "--to", "3", "--yes")


def test_a_range_is_sent_again_and_listed(resend, source: SourceSite):
    done = resend(*BEGIN)
    assert (done.code, done.out) == (0, "policy to tokyo, 2 to 3: 2 entries sent again\n")
    assert source.tick() == 5
    [listed] = resend("list", "--json").json["resends"]
    assert (listed["from"], listed["to"], listed["entries"], listed["state"]) == (2, 3, 2, "done")
    assert re.search(r"policy +tokyo +.+ +● done +2 to 3: 2 entries sent again", resend("list").out)
    assert {each.person for each in actions.newest(source.engine)} == {person()}


def test_a_range_asks_first_and_warns_of_newer_entries(resend, source: SourceSite):
    done = resend("begin", "policy", "tokyo", "--from", "2", "--to", "3")
    assert done.code == 1
    assert "Send entries 2 to 3 of policy to tokyo again, although newer ones are applied there?" in done.err
    assert resend("list").out == "no entries were sent again from here\n"


def test_the_times_of_a_range_are_given_together(resend, source: SourceSite):
    done = resend(
        "begin", "policy", "tokyo", "--since", "2026-01-01T09:00Z", "--until", "2126-01-01T10:00Z", "-y", "--json"
    )
    assert (done.code, done.json["from"], done.json["to"], done.json["entries"]) == (0, 1, 3, 3)


def test_an_interrupted_resend_is_continued_or_cancelled(resend, source: SourceSite):
    for command, words in (("cancel", "0 entries sent again"), ("continue", "2 entries sent again")):
        with interrupted(source.engine, 1):
            resend_entries(source.engine, "policy", "tokyo", start=2, end=3)
        again = resend(*BEGIN)
        assert (again.code, "lrq resend continue policy tokyo" in again.error) == (2, True)
        assert "● begun" in resend("list").out
        done = resend(command, "policy", "tokyo")
        assert (done.code, done.out) == (0, f"policy to tokyo, 2 to 3: {words}\n")
    assert resend("continue", "policy", "tokyo").code == 2


def test_the_status_of_the_site_shows_a_resend_until_its_end(lrq: Command, resend, source: SourceSite):
    def status(*options: str):
        return lrq("status", "--database", source.url, *options)

    with interrupted(source.engine, 2):
        resend_entries(source.engine, "policy", "tokyo", start=1, end=3)
    assert re.search(r"policy +tokyo +.+ +● begun +1 to 3: 1 entry sent again", status().out)
    assert status("--json").json["resends"] == resend("list", "--json").json["resends"]
    assert resend("cancel", "policy", "tokyo", "--json").json["state"] == "cancelled"
    assert "Resends" not in status().out
    assert status("--json").json["resends"] == []


@pytest.mark.parametrize("numbers", [("0", "2"), ("1", "two")])
def test_a_wrong_number_is_refused_before_the_question(resend, numbers: tuple[str, str]):
    done = resend("begin", "policy", "tokyo", "--from", numbers[0], "--to", numbers[1])
    assert done.code == 2
    assert "again, although" not in done.err


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        (("3", "2"), "the range ends at 2, before its first entry 3"),
        (("1", "9"), "the log has entries up to 3, so the range cannot end at 9"),
    ],
)
def test_a_range_that_cannot_be_sent_is_refused_before_the_question(resend, numbers: tuple[str, str], words: str):
    done = resend("begin", "policy", "tokyo", "--from", numbers[0], "--to", numbers[1])
    assert (done.code, done.error, "again, although" in done.err) == (2, f"policy to tokyo: {words}", False)
    assert "again, although" not in resend("begin", "policy", "oslo", "--from", "1", "--to", "2").err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "say either --from and --to, or --since and --until"),
        (("--from", "1"), "say either --from and --to, or --since and --until"),
        (("--from", "1", "--to", "2", "--since", "2026-01-01", "--until", "2026-01-02"), "say either"),
        (("--since", "noon", "--until", "2026-01-02"), "'noon' is no time"),
        (("--from", "1", "--to", "9"), "the log has entries up to 3"),
    ],
)
def test_a_wrong_range_is_one_clear_sentence(resend, arguments: tuple[str, ...], words: str):
    done = resend("begin", "policy", "tokyo", "--yes", *arguments)
    assert done.code == 2
    assert words in done.error
