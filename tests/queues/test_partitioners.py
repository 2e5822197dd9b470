"""Partitioners and maps: stable in every process, and checked when they are written."""

import os
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from queues import partitioner_names
from queues.errors import UsageError
from queues.partitioner_names import partitioner_of
from queues.shard_maps import ShardMap, checked, new_map, with_moves

PROGRAM = """
from queues.shard_maps import new_map
for text in ("hash", "modulo", "range(c,m)", "adaptive", "key"):
    keys = ["7", "1024", "31"] if text == "key" else ["a", "k", "z", "\\u00e9"]
    print(text, [new_map(1, 3, text).slot(key) for key in keys])
"""


def test_slots_are_the_same_in_every_process_and_for_every_hash_seed() -> None:
    said = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed}, check=True, capture_output=True, text=True,
        ).stdout
        for seed in ("0", "1", "77")
    }  # fmt: skip
    assert len(said) == 1
    assert said.pop().splitlines() == [
        "hash [434, 465, 535, 903]",
        "modulo [2, 2, 1, 1]",
        "range(c,m) [0, 1, 2, 2]",
        "adaptive [434, 465, 535, 903]",
        "key [7, 0, 31]",
    ]


def test_a_range_begins_with_its_bound() -> None:
    found = partitioner_of("range(g,n)")
    assert [found.slot(key, 3) for key in ("", "f", "g", "m", "n", "z")] == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize(
    ("shards", "text", "words"),
    [
        (4, "hsah", "there is no partitioner hsah: choose one of adaptive, hash, key, modulo, range"),
        (4, "", "partitioner is '': write a name"),
        (4, "hash(3)", "the partitioner hash takes nothing between parentheses"),
        (4, "modulo(0,1,3)", "modulo names the nodes 0, 1, 3 for 4 shards: name 0 to 3, each once"),
        (3, "modulo(0,1,1)", "name 0 to 2, each once"),
        (3, "modulo(a)", "nodes that are no numbers"),
        (4, "range(g,n)", "range has 3 ranges for 4 shards"),
        (3, "range(n,g)", "do not rise"),
        (3, "range(g,g)", "do not rise"),
        (0, "hash", "shards is 0: choose a number from 1 to 256"),
        (257, "hash", "choose a number from 1 to 256"),
    ],
)
def test_a_bad_map_is_refused_when_it_is_made(shards: int, text: str, words: str) -> None:
    with pytest.raises(UsageError) as refused:
        new_map(1, shards, text)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("owners", "words"),
    [((0, 1, 2), "owners for 3 slots"), ((0, 2), "names the shards 2"), ((0, 0), "own no slot")],
)
def test_a_map_with_a_shard_too_many_or_too_few_is_refused(owners: tuple[int, ...], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        checked(ShardMap(1, 2, "modulo", owners))


def test_a_shard_keeps_a_slot() -> None:
    with pytest.raises(UsageError, match="own no slot"):
        with_moves(new_map(1, 2, "modulo"), {1: 0})
    with pytest.raises(UsageError, match="there is no slot 5"):
        with_moves(new_map(1, 2, "modulo"), {5: 0})


def test_another_number_of_shards_moves_as_few_slots_as_possible() -> None:
    four = new_map(1, 4, "hash")
    five = new_map(2, 5, "hash", four)
    moved = sum(old != new for old, new in zip(four.owners, five.owners, strict=True))
    assert moved == 1024 // 5
    counts = [five.owners.count(shard) for shard in range(5)]
    assert max(counts) - min(counts) <= 1


class FirstLetter:
    """A partitioner of another package."""

    def slots(self, shards: int) -> int:
        return 26

    def slot(self, key: str, slots: int) -> int:
        return ord(key[0]) - ord("a")


def test_a_package_adds_a_partitioner_by_an_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    points = (
        EntryPoint("letters", f"{__name__}:FirstLetter", partitioner_names.GROUP),
        EntryPoint("broken", "no_such_module:x", partitioner_names.GROUP),
        EntryPoint("wrong", "builtins:dict", partitioner_names.GROUP),
    )
    monkeypatch.setattr(
        partitioner_names, "entry_points", lambda group: points if group == partitioner_names.GROUP else ()
    )
    partitioner_of.cache_clear()
    assert new_map(1, 2, "letters").slot("c") == 2
    with pytest.raises(UsageError, match="slot -32 to key 'A', but there are slots 0 to 25"):
        new_map(1, 2, "letters").slot("A")
    with pytest.raises(UsageError, match=r"letters gives no slot to key '' \(.*lrq subscribe shards"):
        new_map(1, 2, "letters").slot("")
    with pytest.raises(UsageError, match="cannot be loaded"):
        partitioner_of("broken")
    with pytest.raises(UsageError, match="has no methods"):
        partitioner_of("wrong")
    partitioner_of.cache_clear()


def install(folder: Path, name: str, *points: str) -> None:
    facts = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("\n".join([f"[{partitioner_names.GROUP}]", *points, ""]))


def test_a_partitioner_of_two_installed_packages_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    install(tmp_path, "one", "mine = queues.partitioners:HashPartitioner", f"letters = {__name__}:FirstLetter")
    install(tmp_path, "same", f"letters = {__name__}:FirstLetter")
    partitioner_of.cache_clear()
    assert new_map(1, 2, "letters").slot("c") == 2
    install(tmp_path, "two", "mine = queues.partitioners:ModuloPartitioner")
    with pytest.raises(UsageError, match=r"the partitioner mine is in several packages \(one, two\)"):
        new_map(1, 2, "mine")


def test_a_key_that_is_no_number_is_refused_by_the_partitioner_key() -> None:
    with pytest.raises(UsageError, match="'x' is no number"):
        new_map(1, 2, "key").slot("x")
