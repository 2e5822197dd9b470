"""Check the installed libraries against the versions that lrq supports."""

import re
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Final

from lrq.cli.doctor.findings import Finding, ok, problem, warning

_CHECK: Final = "libraries"
_REQUIREMENT: Final = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)(?:\[[^\]]*\])?\s*(?P<range>[^;]*)(?:;(?P<marker>.*))?$")
_BOUND: Final = re.compile(r"(>=|<)\s*([0-9][0-9.]*)")


def judge(requirements: Iterable[str], installed: Callable[[str], str | None]) -> Iterator[Finding]:
    """Yield a finding for each library outside its range, and one for all others. Pure but for *installed*.

    A library of an extra may be missing; *installed* returns a version, or None.
    """
    fitting = 0
    for text in requirements:
        found = _REQUIREMENT.match(text)
        if found is None or found["name"] == "lrq":
            continue
        name, limits, there = found["name"], found["range"].strip(), installed(found["name"])
        if there is None:
            if "extra" not in (found["marker"] or ""):
                yield problem(_CHECK, f"{name} is not installed", f"pip install '{name}{limits}'")
        elif fits(there, limits):
            fitting += 1
        elif "extra" not in (found["marker"] or ""):
            yield problem(_CHECK, f"{name} {there} is outside {limits}", f"pip install '{name}{limits}'")
        else:
            yield warning(_CHECK, f"{name} {there} is outside {limits}", f"pip install '{name}{limits}' if you use it")
    yield ok(_CHECK, f"{fitting} libraries are of supported versions")


def fits(there: str, limits: str) -> bool:
    """Return whether version *there* is within *limits*, such as `<2,>=1.85.1`; other operators pass. Pure."""
    mine = _numbers(there)
    return all(
        mine >= _numbers(bound) if operator == ">=" else mine < _numbers(bound)
        for operator, bound in _BOUND.findall(limits)
    )


def _numbers(text: str) -> tuple[int, ...]:
    digits = re.match(r"[0-9]+(?:\.[0-9]+)*", text)
    parts = [int(part) for part in digits[0].split(".")] if digits else []
    while parts and not parts[-1]:
        parts.pop()
    return tuple(parts)


def look() -> list[Finding]:
    """Return the findings about this Python's libraries."""
    try:
        requirements = set(requires("lrq") or ())
    except PackageNotFoundError:
        return [
            warning(_CHECK, "lrq runs without being installed, so its libraries are not checked", "pip install lrq")
        ]
    # The extras for tests and development matter to no site.
    ours = sorted(
        text for text in requirements if not re.search(r"extra == ['\"](?!server|cli|postgres|spark|tls)", text)
    )
    return list(judge({text.partition(";")[0].strip(): text for text in ours}.values(), _installed))


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
