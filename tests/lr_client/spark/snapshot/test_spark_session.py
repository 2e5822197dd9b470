"""Spark's requirements are checked before a session begins; an error names the missing one."""

from pathlib import Path

import pytest

from lr_client.spark import ensure_java
from lr_client.spark.errors import sentence
from lr_client.spark.session import java_version
from queues.errors import MissingDependencyError


@pytest.mark.parametrize(
    ("printed", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_292"', 8),
        ("command not found", None),
    ],
)
def test_the_version_of_java_is_read(printed: str, version: int | None) -> None:
    assert java_version(printed) == version


def fake_java(home: Path, version: str) -> None:
    java = home / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)


def test_an_old_java_is_refused_with_instructions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path, "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(MissingDependencyError, match=r"17 or newer.*is version 11: install"):
        ensure_java()


def test_a_missing_java_is_reported_with_instructions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingDependencyError, match="PATH has none: install"):
        ensure_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(MissingDependencyError, match="JAVA_HOME"):
        ensure_java()


def test_a_new_java_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path, "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert ensure_java() == tmp_path / "bin" / "java"


def test_only_the_relevant_sentence_of_a_stack_trace_is_kept() -> None:
    python = (
        "An exception was thrown:\nTraceback (most recent call last):\n  File x\nValueError: bad row\n SQLSTATE: 38000"
    )
    java = (
        "An error occurred while calling o53.save.\n: org.apache.spark.SparkException: Job aborted.\n\tat org.apache.X"
    )
    ours = (
        "Traceback (most recent call last):\n  File x\nqueues.errors.SnapshotFailedError: leave such rows out\n\tat y"
    )
    assert sentence(python) == "the Spark job failed: ValueError: bad row"
    assert sentence(java) == "the Spark job failed: Job aborted."
    assert sentence(ours) == "leave such rows out"
