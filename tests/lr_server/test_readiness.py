"""A server is ready while it can work, and alive while its loops turn."""

import math

import pytest

from lr_server.readiness import ANSWER_SECONDS, STUCK_SECONDS, DatabaseLook, stuck_loops, unready_parts

WELL = DatabaseLook(began=1000.0, trouble="", well_since=0.0)
AWAY = DatabaseLook(began=1000.0, trouble="the database is away")
NOW = 1001.0


def test_a_server_without_troubles_is_ready():
    assert unready_parts(WELL, NOW, "", {}) == {}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (unready_parts(DatabaseLook(), NOW, "", {}), {"database": "the database has not been looked at yet"}),
        (unready_parts(AWAY, NOW, "", {}), {"database": "the database is away"}),
        (unready_parts(WELL, NOW, "servers: not started", {}), {"role": "servers: not started"}),
        (unready_parts(WELL, NOW, "", {"sequencer": "no tick"}), {"sequencer": "no tick"}),
        (unready_parts(WELL, NOW, "", {"follower": "no tick"}), {"follower": "no tick"}),
        (unready_parts(WELL, NOW, "", {"sessions": "no look"}), {"sessions": "no look"}),
        (unready_parts(WELL, NOW, "", {"ingest": "no store"}), {"ingest": "no store"}),
        (unready_parts(WELL, NOW, "", {"sink": "no room"}), {"sink": "no room"}),
        (unready_parts(AWAY, NOW, "no role", {"ingest": "no"}, stopping=True), {"server": "the server stops"}),
    ],
    ids=["not looked", "database", "role", "sequencer", "follower", "sessions", "ingest", "sink", "stopping"],
)
def test_each_reason_has_its_part_and_its_sentence(found, expected):
    assert found == expected


def test_a_database_that_does_not_answer_makes_the_server_unready():
    assert unready_parts(WELL, 1000.0 + ANSWER_SECONDS, "", {}) == {}
    found = unready_parts(WELL, 1000.5 + ANSWER_SECONDS, "", {})["database"]
    assert found.startswith("the database has not answered for 10 s: ")


@pytest.mark.parametrize("part", ["trim", "providers", "topology"])
def test_work_that_can_wait_leaves_the_server_ready(part: str):
    assert unready_parts(WELL, NOW, "", {part: "it fails"}) == {}


@pytest.mark.parametrize(
    ("turned", "is_stuck"),
    [(NOW, False), (NOW - STUCK_SECONDS, False), (NOW - STUCK_SECONDS - 1, True), (math.inf, False)],
    ids=["just now", "at the limit", "above", "waits for sessions"],
)
def test_a_loop_is_stuck_when_it_has_not_turned_for_too_long(turned: float, is_stuck: bool):
    assert bool(stuck_loops(WELL, NOW, {"sessions": turned})) is is_stuck


@pytest.mark.parametrize("look", [AWAY, WELL._replace(began=NOW - ANSWER_SECONDS - 1)], ids=["fails", "silent"])
def test_no_loop_is_stuck_while_the_database_does_not_answer(look: DatabaseLook):
    assert stuck_loops(look, NOW, {"sessions": 0.0}) == {}


def looked(look: DatabaseLook, seconds: float) -> DatabaseLook:
    """Return the look after a time of looks without a trouble."""
    end = look.began + seconds
    while look.began < end:
        look = look.next(min(look.began + 2.0, end), "")
    return look


@pytest.mark.parametrize(
    "back",
    # A look that the database does not answer began before the silence. So the next one follows after a gap.
    [AWAY.next(1002.0, ""), WELL.next(1000.0 + 5 * STUCK_SECONDS, "")],
    ids=["an error", "no answer"],
)
def test_after_an_outage_of_the_database_the_loops_have_their_time_again(back: DatabaseLook):
    assert back.well_since == back.began
    assert looked(back, 1.0).well_since == back.began
    assert stuck_loops(back, back.began + 0.5, {"sessions": 0.0}) == {}
    later = looked(back, STUCK_SECONDS + 1)
    assert list(stuck_loops(later, later.began, {"sessions": 0.0})) == ["sessions"]
