"""Sizes, durations, payloads, foreign texts, bars and rates as `lrq` prints them."""

import pytest

from discovery.site_status import SiteStatus
from lrq.cli import words
from lrq.cli.views.rates import Look, rates
from tests.discovery.statuses import a_log, a_session, a_site


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0 B"), (1023, "1,023 B"), (1024, "1.0 KiB"), (1536, "1.5 KiB"), (200 * 1024, "200 KiB"),
     (3 * 1024**3, "3.0 GiB"), (5000 * 1024**4, "5,000 TiB")],
)  # fmt: skip
def test_sizes_have_a_unit_and_few_digits(count: int, shown: str):
    assert words.size(count) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0 ms"), (0.04, "40 ms"), (3.21, "3.2 s"), (59.9, "59.9 s"), (250, "4m 10s"), (11_100, "3h 05m"),
     (187_200, "2d 4h")],
)  # fmt: skip
def test_durations_have_units_and_few_digits(seconds: float, shown: str):
    assert words.duration(seconds) == shown


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        ([], ""),
        (["a"], "a"),
        (["a", "b"], "a and b"),
        (["a", "b", "c"], "a, b and c"),
        (list("abcd"), "a, b, c and 1 more"),
    ],
)
def test_many_names_are_shown_in_part(names: list[str], shown: str):
    assert words.some(names, 3) == shown


@pytest.mark.parametrize(
    ("payload", "size", "shown"),
    [
        (b"hello", 5, "hello"),
        (b"hello", 9, "hello…"),
        ("東京".encode(), 6, "東京"),
        ("東京".encode()[:5], 6, "東…"),
        (b"a\nb\tc\r\nd", 8, "a↵b⇥c↵d"),
        (b"\x00\xff", 2, "00 ff"),
        (b"\x1b[31m", 5, "1b 5b 33 31 6d"),
        ("‮".encode(), 3, "e2 80 ae"),
        (b"abc\xff", 4, "61 62 63 ff"),
        (b"\xe6", 3, "e6…"),
    ],
)
def test_previews_show_text_as_text_and_other_bytes_as_hex(payload: bytes, size: int, shown: str):
    assert words.preview(payload, size) == shown


def test_foreign_texts_are_put_on_one_line():
    assert words.one_line("a\nb\x1b[2J  c") == "a b�[2J c"


def test_a_sparkline_shows_growing_values():
    assert words.sparkline([0, 1, 2, 4]) == "▁▃▅█"
    assert words.sparkline([0, 0]) == "▁▁"
    assert words.sparkline([]) == ""


def status(seq: int, acked: int) -> SiteStatus:
    return a_site(log=a_log(seq=seq), sessions=(a_session(acked_seq=acked),))


def test_rates_are_the_growth_between_two_readings():
    found = rates(Look(status(100, 50), 10.0), Look(status(300, 50), 12.0))
    assert (found.of("log"), found.of("session", "policy", "tokyo")) == (100.0, 0.0)
    assert found.of("session", "policy", "lima") is None


def test_a_counter_that_was_reset_has_no_rate():
    assert rates(Look(status(100, 50), 10.0), Look(status(3, 60), 11.0)).of("log") is None


def test_two_readings_at_one_moment_give_no_rates():
    assert rates(Look(status(1, 1), 10.0), Look(status(2, 2), 10.0)).of("log") is None
