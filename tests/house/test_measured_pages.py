"""The front page and the page about other systems have the newest factors of applied entries."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MEASURED = json.loads((ROOT / "docs" / "benchmarks.json").read_text())["measured"]
FRONT = (ROOT / "README.md").read_text()
COMING = (ROOT / "docs" / "coming-from.md").read_text()


def applied(contender: str) -> float:
    """Return the applied entries a second at eight destinations, all of them told of each entry."""
    (median,) = [
        float(each["median"])
        for each in MEASURED
        if (each["experiment"], each["setting"], each["contender"], each["unit"])
        == ("applied", "8 destinations, all to all", contender, "deliveries/s")
    ]
    return median


@pytest.mark.parametrize(
    ("row", "contender"),
    [
        ("Debezium + Kafka", "logical replication"),
        ("PgQ, Londiste", "PgQ, best loop"),
        ("an outbox of your own", "NATS JetStream (no sync)"),
    ],
)
def test_the_front_page_has_the_factor_of_applied_entries(row: str, contender: str):
    (cells,) = re.findall(rf"^\| {re.escape(row)} \|(.*)\|$", FRONT, re.MULTILINE)
    factor = applied("lrq, applied by a listener") / applied(contender)
    assert cells.rpartition("|")[2].strip() == f"{factor:.1f}"


@pytest.mark.parametrize(
    ("row", "contender"),
    [
        ("PostgreSQL's logical replication", "logical replication"),
        ("PgQ with the best loop that we could write", "PgQ, best loop"),
        ("an outbox with NATS JetStream", "NATS JetStream (no sync)"),
        ("the same, where JetStream syncs each message", "NATS JetStream (synced)"),
    ],
)
def test_the_page_of_other_systems_has_the_factor_of_applied_entries(row: str, contender: str):
    (cells,) = re.findall(rf"^\| {re.escape(row)} \|(.*)\|$", COMING, re.MULTILINE)
    factor = applied("lrq, applied by a listener") / applied(contender)
    assert cells.rpartition("|")[2].strip() == f"{factor:.1f} times"
