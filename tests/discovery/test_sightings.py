"""Renewals that have ended, by the clock of the process that looks."""

from discovery.sightings import Sightings

HOUR_US = 3_600_000_000


def test_an_unchanged_expiry_is_overdue_after_the_longest_time_though_the_clock_of_the_database_has_gone_back() -> None:
    seen = Sightings(slack=1, longest=40)
    assert not seen.is_overdue("a", HOUR_US, now_us=0, monotonic=100)
    assert not seen.is_overdue("a", HOUR_US, now_us=41_000_000, monotonic=141)
    assert seen.is_overdue("a", HOUR_US, now_us=42_000_000, monotonic=141.5)


def test_each_renewal_begins_the_time_anew() -> None:
    seen = Sightings(slack=1, longest=40)
    assert not any(seen.is_overdue("a", HOUR_US + turn, now_us=0, monotonic=100 * turn) for turn in range(5))


def test_a_forgotten_name_begins_anew() -> None:
    seen = Sightings(slack=1, longest=40)
    seen.is_overdue("a", HOUR_US, now_us=0, monotonic=0)
    seen.keep(frozenset({"b"}))
    assert not seen.is_overdue("a", HOUR_US, now_us=0, monotonic=100)
