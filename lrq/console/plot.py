"""Geometry of the console's drawings: the plot of lag, and the map of sites. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lrq.console.links import ShownLink, Tone
from lrq.console.samples import HOUR, Sample
from lrq.console.watch import WatchedSite

#: The size of the plot in its own units, and its margin.
WIDTH: Final = 1000
HEIGHT: Final = 140
_EDGE: Final = 4
#: Steps of the vertical axis, in seconds.
_TOPS: Final = (0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400)
#: A pause between two samples above this, in seconds, breaks the line.
_GAP: Final = 60.0


@dataclass(frozen=True, slots=True)
class Plot:
    """A line in SVG: `lines` and `areas` are path data; `top` is the value of the upper edge, in seconds."""

    lines: tuple[str, ...]
    areas: tuple[str, ...]
    top: float
    highest: float
    count: int


def plot(samples: Sequence[Sample], now_us: int) -> Plot:
    """Draw the lag of the past hour up to *now_us*."""
    highest = max((each.seconds for each in samples), default=0.0)
    top = next((step for step in _TOPS if step >= highest), highest)
    runs: list[list[Sample]] = []
    for each in samples:
        if not runs or each.at_us - runs[-1][-1].at_us > _GAP * 1_000_000:
            runs.append([])
        runs[-1].append(each)
    lines, areas = [], []
    for run in runs:
        points = [_point(each, now_us, top) for each in run]
        line = "M" + " L".join(f"{x:.1f},{y:.1f}" for x, y in points)
        lines.append(line if len(points) > 1 else f"{line} h1.5")
        base = HEIGHT - _EDGE
        areas.append(f"{line} L{points[-1][0]:.1f},{base} L{points[0][0]:.1f},{base} Z")
    return Plot(tuple(lines), tuple(areas), top, highest, len(samples))


def _point(sample: Sample, now_us: int, top: float) -> tuple[float, float]:
    age = min(max(now_us - sample.at_us, 0) / 1_000_000, HOUR)
    x = (1 - age / HOUR) * (WIDTH - 2)
    return x, _EDGE + (1 - sample.seconds / top) * (HEIGHT - 2 * _EDGE)


@dataclass(frozen=True, slots=True)
class Node:
    """A site on the map; `key` is empty for one that the console does not watch.

    The name stands at `name_y`, outside of the ellipse, where it covers no arrow.
    """

    name: str
    key: str
    x: float
    y: float
    tone: Tone
    name_y: float


@dataclass(frozen=True, slots=True)
class Edge:
    """All links from one site to another, in the colour of the worst; `path` is an arc with an arrow."""

    source: str
    destination: str
    path: str
    tone: Tone


@dataclass(frozen=True, slots=True)
class Picture:
    """The map of sites."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    width: int = 520
    height: int = 270


_MOST_NODES: Final = 14
_SEVERITY: Final = (Tone.OFF, Tone.GOOD, Tone.BUSY, Tone.WARN, Tone.BAD)
_RADIUS: Final = 20.0


def picture(views: Sequence[WatchedSite], tones: Sequence[Tone], found: Sequence[ShownLink]) -> Picture | None:
    """Arrange the sites on an ellipse; None if there are too many to draw, or only one."""
    known = {view.name: (view.key, tone) for view, tone in zip(views, tones, strict=True)}
    others = dict.fromkeys(link.session.destination for link in found)
    names = [*known, *(name for name in others if name not in known)]
    if not 2 <= len(names) <= _MOST_NODES:
        return None
    made = Picture((), ())
    places = {name: _place(index, len(names), made) for index, name in enumerate(names)}
    tones_of: dict[tuple[str, str], list[Tone]] = {}
    for link in found:
        tones_of.setdefault((link.source.name, link.session.destination), []).append(link.tone)
    edges = tuple(
        Edge(a, b, _arc(places[a], places[b]), max(each, key=_SEVERITY.index))
        for (a, b), each in tones_of.items()
        if a != b
    )
    nodes = []
    for name in names:
        key, tone = known.get(name, ("", Tone.OFF))
        x, y = places[name]
        nodes.append(Node(name, key, x, y, tone, y - 28 if y < made.height / 2 - _RADIUS else y + 38))
    return Picture(tuple(nodes), edges)


def _place(index: int, count: int, made: Picture) -> tuple[float, float]:
    angle = 2 * math.pi * index / count - (math.pi if count == 2 else math.pi / 2)
    x = made.width / 2 + math.cos(angle) * (made.width / 2 - 110)
    y = made.height / 2 - 8 + math.sin(angle) * (made.height / 2 - 48)
    return round(x, 1), round(y, 1)


def _arc(start: tuple[float, float], end: tuple[float, float]) -> str:
    """Return a curve between the rims of two circles; its bend separates the two directions."""
    (ax, ay), (bx, by) = start, end
    dx, dy = bx - ax, by - ay
    length = math.hypot(dx, dy) or 1.0
    cx, cy = (ax + bx) / 2 - dy / length * 26, (ay + by) / 2 + dx / length * 26
    sx, sy = _towards(ax, ay, cx, cy, _RADIUS + 3)
    ex, ey = _towards(bx, by, cx, cy, _RADIUS + 8)
    return f"M{sx:.1f},{sy:.1f} Q{cx:.1f},{cy:.1f} {ex:.1f},{ey:.1f}"


def _towards(x: float, y: float, to_x: float, to_y: float, distance: float) -> tuple[float, float]:
    length = math.hypot(to_x - x, to_y - y) or 1.0
    return x + (to_x - x) / length * distance, y + (to_y - y) / length * distance
