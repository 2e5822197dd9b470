"""The console's decisions: payloads as text, the past of sessions, searches, drawings."""

import dataclasses
import re
from pathlib import Path

import pytest

from discovery.log_status import LogStatus
from discovery.session_status import Lag, SessionStatus
from discovery.site_status import SiteStatus
from lrq.console.entry_search import MOST_READ, Sought, moment_us, search
from lrq.console.links import Tone, links, session_tone
from lrq.console.payloads import MOST_BYTES, as_text, hex_dump, readings
from lrq.console.plot import picture, plot
from lrq.console.samples import HOUR, MOST_SESSIONS, STEP, Sample, SitePast, recent
from lrq.console.texts import behind, entries_behind, words
from lrq.console.watch import WatchedSite
from queues.browse.api import Entry, Page, Wanted
from queues.errors import UsageError
from queues.names import ClientName, SiteId
from queues.states import SessionState

SECOND = 1_000_000


def session(destination="tokyo", client="policy", **changes) -> SessionStatus:
    made = SessionStatus(
        ClientName(client), SiteId(destination), SessionState.LOG_ENTRY_SYNC, "live", "b", 5, Lag(), False, 0
    )
    return dataclasses.replace(made, **changes)


def status(*sessions: SessionStatus, at: float = 0.0, site="paris") -> SiteStatus:
    return SiteStatus(site, int(at * SECOND), (), LogStatus("b", 5, 0, None, 0), sessions)


def entry(number: int, key: str | None = None, written: int = 0) -> Entry:
    fields = {"tags": (), "outstanding": (), "transaction": None, "tick": None, "seq": number, "partition_key": None}
    return Entry(
        position=str(number), kind="log entry", client="policy", source="paris", item_key=key, written_us=written,
        size=1, payload=b"x", **fields,
    )  # fmt: skip


def paged(entries):
    def browse(wanted: Wanted) -> Page:
        start = int(wanted.after or 0)
        found = entries[start : start + wanted.limit]
        more = start + len(found) < len(entries)
        return Page(found, found[-1].position if more else None)

    return browse


def test_a_payload_is_shown_as_json_text_and_hex():
    assert [each.name for each in readings(b'{"a": 1}')] == ["JSON", "text", "hex"]
    assert [each.name for each in readings(b"plain")] == ["text", "hex"]
    assert [each.name for each in readings(b"\xff\x00")] == ["hex"]
    assert readings(b"")[-1].text == ""


def test_a_hex_dump_has_offsets_bytes_and_characters():
    assert hex_dump(b"0123456789abcdef\n") == (
        "000000  30 31 32 33 34 35 36 37  38 39 61 62 63 64 65 66  0123456789abcdef\n"
        f"000010  0a{' ' * 21}  {' ' * 23}  ·"
    )


def test_text_that_turns_the_direction_is_replaced():
    assert as_text("a\u202eb\tc\nd".encode()) == "a\ufffdb\tc\nd"
    assert words("a\u202eb\nc\0") == "a\ufffdb c\ufffd"


def test_a_long_payload_is_cut_between_characters():
    text = as_text(("x" * (MOST_BYTES - 1) + "é").encode()[:MOST_BYTES])
    assert text is not None
    assert len(text) == MOST_BYTES - 1


def test_a_decoder_that_fails_or_knows_nothing_breaks_no_page():
    def fails(_payload: bytes) -> str:
        raise KeyError("secret")

    found = readings(b"\xff", [fails, lambda _payload: None])
    assert found[0].text == "the decoder failed: KeyError"
    assert len(found) == 2


def test_the_past_is_sampled_and_bounded():
    past = SitePast()
    for second in range(0, 2 * int(HOUR), 5):
        past.note(status(session(applied_lag=Lag(1, 1, second)), at=second))
    samples = past.of("policy", "tokyo").samples
    assert len(samples) == HOUR / STEP
    assert samples[-1].at_us - samples[-2].at_us == STEP * SECOND
    for number in range(MOST_SESSIONS + 50):
        past.note(status(session(f"site-{number}"), at=9000))
    assert len(past) == MOST_SESSIONS
    assert not past.of("policy", "tokyo").samples


def test_the_history_holds_changes_and_no_growing_counts():
    past = SitePast()
    for reason in ("sending (5 rows sent)", "sending (1,200 rows sent)", "live", "live"):
        past.note(status(session(reason=reason)))
    assert [each.reason for each in past.of("policy", "tokyo").changes] == ["sending (5 rows sent)", "live"]


def test_a_search_reads_a_bounded_number_of_entries_and_goes_on():
    entries = [entry(number, key="wanted" if number > 7_000 else "other") for number in range(1, 8_001)]
    first = search(paged(entries), Wanted(limit=10), Sought(key="want"))
    assert not first.entries
    assert first.next is not None
    assert int(first.next) <= MOST_READ + 500
    second = search(paged(entries), Wanted(limit=10, after=first.next), Sought(key="want"))
    assert [each.seq for each in second.entries] == list(range(7_001, 7_011))
    assert second.next == "7010"


def test_a_search_by_time_leaves_out_entries_without_a_time():
    sought = Sought(since_us=5, until_us=9)
    assert [sought.matches(entry(1, written=at)) for at in (0, 4, 5, 9, 10)] == [False, False, True, True, False]


def test_a_moment_is_read_as_utc():
    assert moment_us("1970-01-01T00:01") == moment_us("1970-01-01T01:01+01:00") == 60 * SECOND
    assert moment_us("") == 0
    with pytest.raises(UsageError, match="is no time"):
        moment_us("soon")


@pytest.mark.parametrize(
    ("changes", "tone"),
    [
        ({}, Tone.GOOD),
        ({"stalled": True}, Tone.BAD),
        ({"unapplied": True}, Tone.BAD),
        ({"state": SessionState.FAILED}, Tone.BAD),
        ({"state": SessionState.BACKING_OFF}, Tone.WARN),
        ({"state": SessionState.SNAPSHOT_SYNC, "unprovided": True}, Tone.WARN),
        ({"state": SessionState.SNAPSHOT_SYNC}, Tone.BUSY),
        ({"state": SessionState.INACTIVE}, Tone.OFF),
    ],
)
def test_each_state_has_its_colour(changes, tone):
    assert session_tone(session(**changes)) is tone


def test_lag_is_told_in_words():
    assert behind(Lag()) == "current"
    assert behind(Lag(2, 1, 3.5)) == "3.5 s behind"
    assert behind(Lag(2, 1, 3.5, is_most=True)) == "at most 3.5 s behind"
    assert entries_behind(Lag(1200, 2048, 3.5, is_most=True)) == "≤ 1,200 (2.0 KiB)"


def test_a_plot_breaks_where_samples_are_missing():
    now = int(HOUR) * SECOND
    samples = [Sample(at * SECOND, 1.5, 1) for at in (0, 10, 20, 2000, 2010)]
    drawn = plot(samples, now)
    assert len(drawn.lines) == 2
    assert drawn.top == 2
    assert drawn.lines[0].startswith("M0.0,")
    assert plot([], now).lines == ()
    assert recent(samples, now + 5 * SECOND) == samples[1:]


def test_the_map_draws_watched_and_other_sites_up_to_a_limit():
    views = [
        WatchedSite("1", status(session("tokyo"), session("lima"), site="paris")),
        WatchedSite("2", status(site="tokyo")),
    ]
    found = links(views)
    drawn = picture(views, [Tone.GOOD, Tone.GOOD], found)
    assert drawn is not None
    assert [(node.name, node.key) for node in drawn.nodes] == [("paris", "1"), ("tokyo", "2"), ("lima", "")]
    assert {(edge.source, edge.destination) for edge in drawn.edges} == {("paris", "tokyo"), ("paris", "lima")}
    paris = drawn.nodes[0]
    assert paris.name_y < paris.y, "the name of a site at the top stands above it, and covers no arrow"
    assert all(node.name_y > node.y for node in drawn.nodes[1:])
    many = [WatchedSite(str(n), status(site=f"site-{n}")) for n in range(40)]
    assert picture(many, [Tone.GOOD] * 40, []) is None


def test_the_page_about_the_console_explains_each_state_of_a_link():
    page = (Path(__file__).parents[3] / "docs" / "console.md").read_text()
    (table,) = re.findall(r"^\| state \| meaning \|\n(.*?)\n\n", page, re.MULTILINE | re.DOTALL)
    assert sorted(re.findall(r"^\| `(.+?)` \|", table, re.MULTILINE)) == sorted(SessionState)
