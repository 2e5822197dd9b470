"""Compare two clocks. Pure."""

from typing import Final

from lrq.cli.doctor.findings import Finding, ok, warning
from lrq.cli.words import duration

#: The difference, in seconds, from which a clock gives a warning; retention and the shown lags suffer from more.
MOST: Final = 5.0


def skew(name: str, there_us: int, before_us: int, after_us: int) -> Finding:
    """Judge the time *there_us* of *name*, read between the two times of this machine, in microseconds since 1970."""
    apart = max(before_us - there_us, there_us - after_us, 0) / 1_000_000
    if apart <= MOST:
        return ok("clock", f"the clock of {name} agrees with this machine's clock")
    side = "behind" if there_us < before_us else "ahead of"
    return warning(
        "clock",
        f"the clock of {name} is {duration(apart)} {side} this machine's clock",
        "let NTP set both clocks: retention and the shown lags depend on them",
    )
