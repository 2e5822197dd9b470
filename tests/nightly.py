"""Tests that only `make nightly` runs on both databases: each change runs a slow test on one of them."""

from collections import defaultdict
from zlib import crc32

import pytest

from tests.heavy import is_slow


def halve_slow_tests(items: list[pytest.Item]) -> None:
    """Mark a slow test as nightly on one of its two databases, unless one has the mark already.

    Names decide, so half of a file runs on each database.
    """
    pairs: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if isinstance(item, pytest.Function) and hasattr(item, "callspec") and is_slow(item):
            dialect = str(item.callspec.params.get("dialect"))
            pairs[item.nodeid.replace(dialect, "*")].append(item)
    for name, pair in pairs.items():
        if len(pair) == 2 and not any(item.get_closest_marker("nightly") for item in pair):
            pair[crc32(name.encode()) % 2].add_marker(pytest.mark.nightly)
