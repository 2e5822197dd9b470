"""Format numbers, times and untrusted texts for people. Pure."""

from collections.abc import Sequence
from typing import Final

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
_BARS: Final = "▁▂▃▄▅▆▇█"

#: The content of an empty cell.
NONE: Final = "–"

#: The advice where no server works: one that runs may be unable to write to its database.
SERVE: Final = "run `lrq serve`, or see the log of one that runs"

#: The statement for a table that a crash empties, and for a sequence that a crash sets back.
LOGGED_AGAIN: Final = "ALTER TABLE {} SET LOGGED"


def emptied_by_a_crash(tables: Sequence[str]) -> str:
    """Tell the harm of unlogged *tables* and sequences in a sentence without its end."""
    harm = "so entries would be lost or come twice"
    return f"a crash of PostgreSQL empties or sets back the unlogged {some(tables)}, {harm}"


def hidden_from_the_role(tables: Sequence[str]) -> str:
    """Tell the harm of row level security on *tables* in a sentence without its end."""
    return f"row level security hides rows of {some(tables)} from this role, so entries would stay or be lost"


#: The cure for triggers and rules of others, and for their views.
NO_ALTERING: Final = (
    "drop these triggers and rules, or let the triggers fire AFTER; put the tables back in place of views, foreign "
    "tables and detached partitions"
)


def altered_by_others(tables: Sequence[str]) -> str:
    """Tell the harm of triggers, rules and views of others at *tables* in a sentence without its end."""
    return (
        f"triggers, rules or views that are not of lrq may leave out or change rows of {some(tables)}, "
        "so entries may be lost"
    )


def size(count: float) -> str:
    """Show a number of bytes: `512 B`, `1.2 MiB`."""
    for unit in _UNITS:
        if count < 1024 or unit == _UNITS[-1]:
            break
        count /= 1024
    return f"{count:,.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"


def duration(seconds: float) -> str:
    """Show seconds: `40 ms`, `3.2 s`, `4m 10s`, `3h 05m`, `2d 4h`."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes}m {rest:02}s"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours}h {minutes:02}m"
    days, hours = divmod(hours, 24)
    return f"{days}d {hours}h"


def number(count: int, *, is_least: bool = False) -> str:
    """Show a count: `1,234`; `10,000+` for a lower bound."""
    return f"{count:,}{'+' if is_least else ''}"


def plural(count: int, one: str, many: str | None = None) -> str:
    """Show a count with its noun: `1 entry`, `2 entries`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def some(names: Sequence[str], most: int = 5) -> str:
    """Show up to *most* names: `lima`, `lima and oslo`, `lima, oslo and 7 more`."""
    shown, rest = list(names[:most]), len(names) - most
    if rest > 0:
        shown.append(f"{rest:,} more")
    return " and ".join(filter(None, (", ".join(shown[:-1]), *shown[-1:])))


def rate(per_second: float | None) -> str:
    """Show a rate per second; a dash for an unknown one."""
    if per_second is None:
        return NONE
    return f"{per_second:,.0f}/s" if per_second >= 10 or per_second == 0 else f"{per_second:.1f}/s"


def one_line(text: str) -> str:
    """Put an untrusted text on one line, without characters that could control a terminal."""
    return printable(" ".join(text.split()))


def cut(text: str, length: int) -> str:
    """Shorten a text to *length* characters."""
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"


def printable(text: str) -> str:
    """Replace every unprintable character."""
    return "".join(character if character.isprintable() else "�" for character in text)


def preview(payload: bytes, whole_size: int) -> str:
    """Show the beginning of a payload: as text if it is text, otherwise in hex."""
    text = _as_text(payload, is_cut=whole_size > len(payload))
    shown = payload.hex(" ") if text is None else text
    return f"{shown}…" if whole_size > len(payload) else shown


def _as_text(payload: bytes, *, is_cut: bool) -> str | None:
    try:
        text = payload.decode("utf-8")
    except UnicodeDecodeError as error:
        # The payload may be cut inside a character.
        if not is_cut or error.end < len(payload) or error.start < len(payload) - 3 or error.start == 0:
            return None
        text = payload[: error.start].decode("utf-8")
    text = text.replace("\r\n", "\n").replace("\n", "↵").replace("\t", "⇥")
    return text if text.isprintable() else None


def sparkline(values: list[float]) -> str:
    """Draw *values* as a line of bars; the largest value has the full height."""
    top = max(values, default=0.0)
    if top <= 0:
        return _BARS[0] * len(values)
    return "".join(_BARS[min(int(value / top * (len(_BARS) - 1) + 0.5), len(_BARS) - 1)] for value in values)
