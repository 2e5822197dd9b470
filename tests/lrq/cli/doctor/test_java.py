"""Java is asked for where Spark may run in the process, and not from a client of Spark Connect."""

from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from lrq.cli.doctor import java


@pytest.fixture(autouse=True)
def pyspark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of PySpark, and no Java."""
    found = ModuleSpec("pyspark", None, is_package=True)
    found.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr(java, "find_spec", lambda _name: found)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    (tmp_path / "core").mkdir()
    return tmp_path


def test_the_lack_of_java_is_told() -> None:
    assert [found.sentence for found in java.look()] == ["pyspark is installed, but there is no Java"]


def test_the_package_of_clients_needs_no_java(pyspark: Path) -> None:
    (pyspark / "core").rmdir()
    assert java.look() == []


def test_an_address_of_spark_connect_needs_no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://spark")
    assert java.look() == []
