"""A bar chart of deliveries per second, as SVG."""

from typing import Final
from xml.sax.saxutils import escape

from benchmarks.book import Book
from benchmarks.figures import Summary, shown
from benchmarks.issue_bars import FLOORS

_UNIT: Final = "deliveries/s"
_WIDTH: Final = 860
_LEFT: Final = 320
_LINE: Final = 22
_COLOURS: Final = {"lrq": "#1f6feb", "": "#8b949e"}


def plot(book: Book) -> str:
    """Draw one bar per setting and contender, without floors, and a line from the least to the most."""
    found = [
        (key, summary)
        for key, summary in book.summaries()
        if (key.experiment, key.unit) == ("deliveries", _UNIT) and key.contender not in FLOORS
    ]
    found.sort(key=lambda each: (each[0].setting, -each[1].median))
    most = max((summary.most for _, summary in found), default=1.0) or 1.0
    parts = [f'<text x="8" y="18" font-weight="bold">{_UNIT}</text>']
    for line, (key, summary) in enumerate(found):
        parts += _bar(24 + line * _LINE, f"{key.contender}, {key.setting}", summary, most)
    height = 34 + len(found) * _LINE
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" font-family="sans-serif"'
    return "\n".join([f'{head} font-size="12"><rect width="100%" height="100%" fill="white"/>', *parts, "</svg>", ""])


def _bar(top: int, label: str, summary: Summary, most: float) -> list[str]:
    scale = (_WIDTH - _LEFT - 90) / most
    colour = _COLOURS["lrq" if label.startswith("lrq") else ""]
    middle = top + _LINE // 2
    least, greatest = _LEFT + summary.least * scale, _LEFT + summary.most * scale
    return [
        f'<text x="{_LEFT - 8}" y="{middle + 4}" text-anchor="end">{escape(label)}</text>',
        f'<rect x="{_LEFT}" y="{top + 3}" width="{summary.median * scale:.1f}" height="{_LINE - 6}" fill="{colour}"/>',
        f'<line x1="{least:.1f}" x2="{greatest:.1f}" y1="{middle}" y2="{middle}" stroke="black"/>',
        f'<text x="{greatest + 6:.1f}" y="{middle + 4}">{shown(summary.median)}</text>',
    ]
