"""The table of a run."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from benchmarks.snapshot.rounds import Compared
from benchmarks.snapshot.stages import STAGES

_LINE = "{:<22} {:>9} {:>10} {:>10} {:>7} {:>6}  {}\n"
#: Smaller sizes measure the start of a job, not its growth.
_GROWTH_FROM = 100_000


def table(found: Sequence[Compared], facts: Mapping[str, object]) -> str:
    """Return the table, with one line per comparison."""
    text = f"{facts['payload_bytes']} bytes a row, {facts['cores']} cores, rows/s in the median of the rounds\n\n"
    text += _LINE.format("", "rows", "lrq", "other", "ratio", "bar", "against")
    for each in found:
        bar = f"{each.bar:.2f}" + ("" if each.ratio >= each.bar else " !")
        ours, theirs = f"{each.our_rate:,.0f}", f"{each.their_rate:,.0f}"
        text += _LINE.format(each.what, f"{each.rows:,}", ours, theirs, f"{each.ratio:.2f}", bar, each.against)
    for line in (*_stages(found), *_cpu(found), *_start(found), *_growth(found), *_peaks(found)):
        text += line + "\n"
    return text


def _rows(compared: Compared) -> int:
    return compared.rows


def _start(found: Sequence[Compared]) -> Iterator[str]:
    travels = [each for each in found if each.ready]
    if travels:
        few = min(travels, key=_rows)
        yield ""
        yield f"of {few.rows:,} rows the Spark job takes {median(few.ready):.2f} s: that is its start, whatever follows"


def _stages(found: Sequence[Compared]) -> Iterator[str]:
    """Yield a table of the stages: seconds in the median of the rounds, and their share of the sum."""
    for each in found:
        if each.stages:
            seconds = {fact: median(of[fact] for of in each.stages) for fact in STAGES}
            total = sum(seconds.values())
            yield ""
            yield f"{each.what}, {each.rows:,} rows, by stage: seconds and share"
            for fact, words in STAGES.items():
                yield f"  {words:<62} {seconds[fact]:>7.2f} {seconds[fact] / total:>6.0%}"


def _cpu(found: Sequence[Compared]) -> Iterator[str]:
    for each in found:
        if each.cpu:
            yield ""
            yield f"{each.what}, {each.rows:,} rows, CPU seconds: {_spent(each.cpu)}"
            yield f"  {each.against}: {_spent(each.cpu_against)}"


def _spent(rounds: Sequence[Mapping[str, float]]) -> str:
    kinds = dict.fromkeys(kind for each in rounds for kind in each)
    seconds = {kind: median(each.get(kind, 0.0) for each in rounds) for kind in kinds}
    return ", ".join(f"{kind} {spent:.2f}" for kind, spent in {**seconds, "sum": sum(seconds.values())}.items())


def _growth(found: Sequence[Compared]) -> Iterator[str]:
    yield ""
    for what in dict.fromkeys(each.what for each in found):
        sizes = [each for each in found if each.what == what and each.rows >= _GROWTH_FROM]
        if len(sizes) > 1:
            few, many = min(sizes, key=_rows), max(sizes, key=_rows)
            yield (
                f"{what}, rows/s at {many.rows:,} rows for each at {few.rows:,}: "
                f"lrq {many.our_rate / few.our_rate:.2f}, {many.against} {many.their_rate / few.their_rate:.2f}"
            )


def _peaks(found: Sequence[Compared]) -> Iterator[str]:
    yield ""
    for each in found:
        if each.peaks:
            peaks = (f"{kind} {each.resident[kind] >> 20} to {peak >> 20}" for kind, peak in each.peaks.items())
            yield f"resident MiB of the largest process, before {each.rows:,} rows and at its peak: {', '.join(peaks)}"
    yield "(the peak is VmHWM: a limit of addresses, RLIMIT_AS, counts what gRPC only reserves)"
