"""The findings of `lrq doctor`. Pure."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from lrq.cli.words import plural


class Severity(StrEnum):
    """The weight of a finding; only a problem makes the command fail."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence about the part named by `check`; `cure` names the remedy, and is empty for an ok finding."""

    check: str
    level: Severity
    sentence: str
    cure: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return an item of `findings`."""
        return asdict(self) | {"level": self.level.value}


def ok(check: str, sentence: str) -> Finding:
    """Return a finding about a part that is well."""
    return Finding(check, Severity.OK, sentence)


def warning(check: str, sentence: str, cure: str) -> Finding:
    """Return a finding about a part that works now and may not for long."""
    return Finding(check, Severity.WARNING, sentence, cure)


def problem(check: str, sentence: str, cure: str) -> Finding:
    """Return a finding about a part that does not work."""
    return Finding(check, Severity.PROBLEM, sentence, cure)


def told(check: str, error: object, cure: str = "look at the words of this error") -> Finding:
    """Return the problem of our own *error* or sentence, which mostly ends with its cure after a colon."""
    sentence, colon, remedy = str(error).rpartition(": ")
    return problem(check, sentence, remedy) if colon else problem(check, str(error), cure)


def count(findings: Iterable[Finding], level: Severity) -> int:
    """Return the number of *findings* of one level."""
    return sum(finding.level is level for finding in findings)


def summary(findings: Iterable[Finding]) -> str:
    """Return one sentence about all *findings*."""
    made = list(findings)
    problems, warnings = count(made, Severity.PROBLEM), count(made, Severity.WARNING)
    if not problems and not warnings:
        return f"{plural(len(made), 'check')}: all is well"
    return f"{plural(len(made), 'check')}: {plural(problems, 'problem')}, {plural(warnings, 'warning')}"
