"""The judgements of `lrq doctor` about facts, without a site."""

import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import trustme

from lrq.cli.doctor import certificates, java, libraries, peers, postgresql, sqlite_file
from lrq.cli.doctor.bounded import Probe, examine
from lrq.cli.doctor.clock import skew
from lrq.cli.doctor.findings import Finding, Severity, ok, problem, summary, told, warning
from lrq.cli.doctor.view import line
from queues.database.standby_facts import StandbyFacts
from queues.errors import ConfigurationError
from queues.send_log.trim_blockers import TrimBlocker
from queues.wire.replication_pb2 import NegotiateResponse, Refusal

NOW = datetime(2026, 5, 1, tzinfo=UTC)


def levels(findings: Sequence[Finding]) -> list[str]:
    return [finding.level.value for finding in findings]


# --- findings -------------------------------------------------------------------------------------------------


def test_a_finding_is_one_line_with_its_cure() -> None:
    assert line(ok("java", "Java 17 serves Spark")) == "ok       java: Java 17 serves Spark"
    assert line(problem("peer tokyo", "is\ndead", "start it")) == "problem  peer tokyo: is dead: start it"
    assert told("x", ConfigurationError("a: b: do it")) == problem("x", "a: b", "do it")
    assert told("x", "no colon", "cure").cure == "cure"


def test_the_summary_counts_problems_and_warnings() -> None:
    good, soon, bad = ok("a", "b"), warning("a", "b", "c"), problem("a", "b", "c")
    assert summary([good, good]) == "2 checks: all is well"
    assert summary([good, soon, bad, bad]) == "4 checks: 2 problems, 1 warning"


def test_each_probe_fails_alone_and_in_time() -> None:
    never = threading.Event()

    def hang() -> list[Finding]:
        never.wait(30)
        return []

    def fail() -> list[Finding]:
        raise ConfigurationError("no: correct the file")

    def break_down() -> list[Finding]:
        raise ZeroDivisionError("secret\nsecond line")

    probes = [
        Probe("a", hang, 0.2),
        Probe("b", fail, 5),
        Probe("c", break_down, 5),
        Probe("d", lambda: [ok("d", "")], 5),
    ]
    hung, failed, broken, fine = examine(probes)
    never.set()
    assert (hung.check, hung.sentence) == ("a", "no answer came within 0.2 s")
    assert failed == problem("b", "no", "correct the file")
    assert broken.sentence == "the check itself failed (ZeroDivisionError: secret)"
    assert fine.level is Severity.OK


# --- certificates ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [datetime(2035, 3, 4, 5, 6, 7, tzinfo=UTC), datetime(2061, 1, 1, tzinfo=UTC)])
@pytest.mark.parametrize("kind", [trustme.KeyType.ECDSA, trustme.KeyType.RSA])
def test_the_end_of_a_certificate_is_read(end: datetime, kind: trustme.KeyType) -> None:
    begin = datetime(2020, 1, 2, tzinfo=UTC)
    made = trustme.CA().issue_cert("paris.example", not_before=begin, not_after=end, key_type=kind)
    (found,) = certificates.validities(made.cert_chain_pems[0].bytes().decode())
    assert found == (begin, end)


@pytest.mark.parametrize("cut", range(0, 120, 7))
def test_a_damaged_certificate_is_an_error(cut: int) -> None:
    import ssl

    der = ssl.PEM_cert_to_DER_cert(trustme.CA().cert_pem.bytes().decode())
    with pytest.raises(ValueError, match="certificate"):
        certificates.validity(der[:cut])
    with pytest.raises(ValueError, match="certificate"):
        certificates.validity(b"\x31" + der[1:])


@pytest.mark.parametrize(
    ("days", "level", "words"),
    [(-1, "problem", "was valid until"), (29, "warning", "for 29 more days"), (31, "ok", "is valid until")],
)
def test_an_ended_or_ending_certificate_is_told(days: int, level: str, words: str) -> None:
    found = certificates.Validity(NOW - timedelta(days=400), NOW + timedelta(days=days, hours=1))
    finding = certificates.judge("tls", "site.pem", found, NOW)
    assert (finding.level.value, words in finding.sentence) == (level, True)


def test_a_certificate_of_the_future_points_at_the_clocks() -> None:
    found = certificates.Validity(NOW + timedelta(days=1), NOW + timedelta(days=400))
    assert "compare the clocks" in certificates.judge("tls", "site.pem", found, NOW).cure


# --- libraries and Java ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("there", "limits", "fit"),
    [
        ("2.0.36", "<2.2,>=2.0.36", True),
        ("2.0.35", "<2.2,>=2.0.36", False),
        ("2.2", "<2.2,>=2.0.36", False),
        ("2.10.0", ">=2.9", True),
        ("2", ">=2.0.0", True),
        ("25.1.0rc1", ">=25.1", True),
        ("1.0", "", True),
    ],
)
def test_versions_are_compared_by_numbers(there: str, limits: str, fit: bool) -> None:
    assert libraries.fits(there, limits) == fit


def test_a_library_outside_its_range_is_told_and_a_missing_extra_is_not() -> None:
    installed = {"alembic": "0.9", "pyspark": "3.5", "mmh3": "5.1"}
    found = list(
        libraries.judge(
            [
                "alembic<2,>=1.16",
                "mmh3<6,>=5",
                "grpcio>=1.85.1",
                "lrq[server]",
                'pyspark<5,>=4.2; extra == "spark"',
                'psycopg[binary]<4,>=3.2; extra == "postgres"',
            ],
            installed.get,
        )
    )
    assert levels(found) == ["problem", "problem", "warning", "ok"]
    assert [each.sentence for each in found] == [
        "alembic 0.9 is outside <2,>=1.16",
        "grpcio is not installed",
        "pyspark 3.5 is outside <5,>=4.2",
        "1 libraries are of supported versions",
    ]


@pytest.mark.parametrize(
    ("words", "level"),
    [
        ('openjdk version "17.0.2" 2022', "ok"),
        ('openjdk version "21" 2023', "ok"),
        ('java version "1.8.0_392"', "warning"),
        ("command not found", "warning"),
        (None, "warning"),
    ],
)
def test_java_is_judged_by_its_version(words: str | None, level: str) -> None:
    assert java.judge(words).level.value == level


# --- databases ------------------------------------------------------------------------------------------------

GOOD = postgresql.PostgresqlFacts(16, 0, 97, 0, -1, in_recovery=False, read_only=False, idle_ms=0)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, ["ok"]),
        ({"version": 13}, ["problem"]),
        ({"prepared": 5}, ["ok", "warning"]),
        ({"connections": 19}, ["ok", "warning"]),
        ({"others": 77}, ["ok"]),
        ({"others": 78}, ["ok", "warning"]),
        ({"role_connections": 0}, ["ok", "warning"]),
        ({"role_connections": 20}, ["ok"]),
        ({"in_recovery": True}, ["ok", "problem"]),
        ({"read_only": True}, ["ok", "problem"]),
        ({"idle_ms": 600_000}, ["ok", "warning"]),
    ],
)
def test_the_facts_of_postgresql_that_hinder_are_told(change: dict[str, int], expected: list[str]) -> None:
    assert levels(list(postgresql.judge(replace(GOOD, **change), 20))) == expected


def test_the_connections_are_judged_by_the_setting_of_the_site() -> None:
    facts = replace(GOOD, connections=12, role_connections=11)
    assert levels(list(postgresql.judge(facts, 9))) == ["ok"]
    found = list(postgresql.judge(facts, 13))
    assert levels(found) == ["ok", "warning", "warning"]
    assert all("13" in each.sentence for each in found[1:])


def test_the_facts_of_a_sqlite_file_that_hinder_are_told() -> None:
    assert levels([sqlite_file.mode("wal"), sqlite_file.mode("delete")]) == ["ok", "warning"]
    assert levels([sqlite_file.version((3, 35, 0)), sqlite_file.version((3, 34, 1))]) == ["ok", "problem"]
    assert levels([sqlite_file.room("/x", size) for size in (2**40, 2**29, 2**20)]) == ["ok", "warning", "problem"]


@pytest.mark.parametrize(
    ("there", "level", "words"),
    [(1_000_000, "ok", "agrees"), (-5_000_001, "warning", "5.0 s behind"), (17_000_000, "warning", "10.0 s ahead of")],
)
def test_a_clock_that_is_apart_is_told(there: int, level: str, words: str) -> None:
    finding = skew("the database", there, 0, 7_000_000)
    assert (finding.level.value, words in finding.sentence) == (level, True)


# --- peers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "level", "words"),
    [
        (NegotiateResponse(protocol=1, site="tokyo"), "ok", "site tokyo answers"),
        (NegotiateResponse(protocol=1, site="lima"), "problem", "site 'lima' answers"),
        (NegotiateResponse(), "problem", "no site answers"),
        (NegotiateResponse(protocol=9, site="tokyo"), "warning", "speaks version 9"),
        (
            NegotiateResponse(refusal=Refusal(kind=Refusal.WRONG_SITE, reason="the certificate names x: use another")),
            "problem",
            "the certificate names x",
        ),
    ],
)
def test_the_answer_of_a_peer_is_judged(answer: NegotiateResponse, level: str, words: str) -> None:
    finding = peers.answered("peer tokyo", "tokyo", "tcp://x:1", answer)
    assert (finding.level.value, words in finding.sentence) == (level, True)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (StandbyFacts(0, 0), []),
        (StandbyFacts(1, 2), ["ok"]),
        (StandbyFacts(1, 0), ["problem"]),
        (StandbyFacts(1, 2, 3.0), ["problem"]),
        (StandbyFacts(1, None), ["warning"]),
        (StandbyFacts(1, None, 3.0), ["problem"]),
    ],
)
def test_missing_and_unseen_standby_servers_are_told(facts: StandbyFacts, expected: list[str]) -> None:
    assert levels(list(postgresql.judge_standbys(facts))) == expected


def test_each_transaction_that_keeps_trim_from_the_log_is_a_warning_with_its_cure() -> None:
    named = "the prepared transaction 'a: b'"
    found = (
        TrimBlocker(named, "COMMIT PREPARED 'a: b', or ROLLBACK PREPARED", 600.0),
        TrimBlocker("process 8", "x", None),
    )
    first, second = postgresql.judge_blockers(found)
    assert first.level is Severity.WARNING
    assert first.sentence == f"{named} has used tables of the log for 10m 00s, so trim cannot empty them"
    assert first.cure == "wait if it is a backup, otherwise end it with COMMIT PREPARED 'a: b', or ROLLBACK PREPARED"
    assert second.sentence == "process 8 has used tables of the log for long, so trim cannot empty them"
