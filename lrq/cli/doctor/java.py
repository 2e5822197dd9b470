"""Check Java, which only Spark needs."""

import os
import re
import shutil
import subprocess
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from lrq.cli.doctor.findings import Finding, ok, warning

_CHECK: Final = "java"
_OLDEST: Final = 17
_SECONDS: Final = 10
_CURE: Final = f"install Java {_OLDEST} or later, or set JAVA_HOME, if this site makes snapshots with Spark"


def judge(words: str | None) -> Finding:
    """Judge the *words* of `java -version`; None if there is no Java. Pure."""
    found = re.search(r'version "(?:1\.)?(\d+)', words or "")
    if found is None:
        return warning(_CHECK, "pyspark is installed, but there is no Java", _CURE)
    if int(found[1]) < _OLDEST:
        return warning(_CHECK, f"Java {found[1]} is too old for Spark", _CURE)
    return ok(_CHECK, f"Java {found[1]} serves Spark")


def look() -> list[Finding]:
    """Return one finding where Spark may run in this process, and none elsewhere."""
    pyspark = find_spec("pyspark")
    if pyspark is None or _is_client(pyspark):
        return []
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if program is None or not Path(program).exists():
        return [judge(None)]
    done = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=_SECONDS, check=False)
    return [judge(done.stderr + done.stdout)]


def _is_client(pyspark: ModuleSpec) -> bool:
    """Return whether Spark is reached by Spark Connect: by a setting, or since only `pyspark-client` is installed."""
    places = pyspark.submodule_search_locations or ()
    return "SPARK_REMOTE" in os.environ or not any((Path(place) / "core").is_dir() for place in places)
