"""The time that a large frame needs on a slow line."""

import pytest

from lr_server.protocol.slow_lines import SLOWEST, SUSPECTED_AFTER, is_suspected, stalled_after


@pytest.mark.parametrize(
    ("oldest_bytes", "seconds"),
    [(0, 60), (8 * 1024, 61), (2 * 1024**2, 316), (16 * 1024**2, 2_108)],
    ids=["nothing", "8 KiB", "2 MiB", "16 MiB"],
)
def test_the_oldest_frame_has_the_time_that_64_kbit_a_second_need(oldest_bytes: int, seconds: float):
    assert stalled_after(60.0, oldest_bytes) == seconds


def test_a_line_is_suspected_after_some_seconds_of_silence_with_many_bytes_in_flight():
    many = int(SUSPECTED_AFTER * SLOWEST)
    assert not is_suspected(0.0, many)
    assert not is_suspected(SUSPECTED_AFTER - 0.1, many)
    assert is_suspected(SUSPECTED_AFTER, many)
    assert not is_suspected(SUSPECTED_AFTER, many - 1)
