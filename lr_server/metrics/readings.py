"""Metrics as readings: each has a name, a meaning, and a value in one part of a status."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

Part = TypeVar("Part")
#: A metric: its name, its meaning, and its value in one part of a status.
Reading = tuple[str, str, Callable[[Part], float]]
#: A part of a status with the labels of its samples.
Labelled = tuple[Sequence[str], Part]


def gauges(
    readings: Sequence[Reading[Part]], names: Sequence[str], found: Sequence[Labelled[Part]]
) -> Iterator[Metric]:
    """Yield a gauge for each of *readings*, with a sample for each part that was *found*."""
    for name, meaning, read in readings:
        gauge = GaugeMetricFamily(name, meaning, labels=names)
        for labels, part in found:
            gauge.add_metric(labels, float(read(part)))
        yield gauge


def counters(
    readings: Sequence[Reading[Part]], names: Sequence[str], found: Sequence[Labelled[Part]]
) -> Iterator[Metric]:
    """Yield a counter for each of *readings*, with a sample for each part that was *found*."""
    for name, meaning, read in readings:
        counter = CounterMetricFamily(name, meaning, labels=names)
        for labels, part in found:
            counter.add_metric(labels, read(part))
        yield counter
