"""The table `[ring]`: its defaults, and one sentence for each mistake."""

from pathlib import Path
from typing import Any

import pytest

from discovery.rings import Share
from lr_server import Settings
from queues.errors import ConfigurationError

MEMBERS = ["tcp://10.0.0.1:7400", "tcp://10.0.0.2:7400", "tcp://10.0.0.3:7400"]
RING = {"members": MEMBERS, "rank": 1, "witness": "/var/lib/witness/paris"}
GOOD: dict[str, Any] = {
    "site_id": "paris", "database_url": "sqlite:///paris.db", "listen": ["tcp://0.0.0.0:7400"], "ingest": True,
    "producers": {"*": {}},
}  # fmt: skip


def settings(ring: dict[str, Any] | None = None, **others: Any) -> Settings:
    return Settings(**{**GOOD, "ring": {**RING, **(ring or {})}, **others})


def test_a_server_of_a_ring_knows_its_members_and_its_rank():
    ring = settings().ring
    assert ring is not None
    assert (list(ring.members), ring.rank, ring.witness) == (MEMBERS, 1, Path("/var/lib/witness/paris"))
    assert ring.stall_seconds > ring.lease_seconds
    assert (ring.acknowledging_followers, settings({"acknowledging_followers": 2}).ring.acknowledging_followers) == (
        1,
        2,
    )


def test_a_server_of_a_ring_knows_the_keys_of_its_ring():
    assert settings().ring.share("paris") == Share(0, 1)
    assert settings({"rings": 3}, site_id="paris-2").ring.share("paris-2") == Share(2, 3)


def test_a_variable_holds_the_table_as_json(monkeypatch: pytest.MonkeyPatch):
    import json

    monkeypatch.setenv("LRQ_RING", json.dumps(RING))
    assert Settings(**GOOD).ring == settings().ring


@pytest.mark.parametrize(
    ("ring", "others", "words"),
    [
        ({"members": MEMBERS[:2]}, {}, "members"),
        ({"members": MEMBERS[:2] + MEMBERS[:1]}, {}, "two members of the ring have one endpoint"),
        ({"members": [*MEMBERS[:2], "local:paris"]}, {}, "local:paris"),
        ({"members": [*MEMBERS[:2], "tls://10.0.0.3:7400"]}, {}, "tls_certificate is missing"),
        ({"rank": 3}, {}, "rank"),
        ({"seats": 3}, {}, "seats"),
        ({"acknowledging_followers": 0}, {}, "remove .ring. for a server that answers after its own disk"),
        ({"acknowledging_followers": 3}, {}, "a ring has two followers: set 1 or 2"),
        ({"witness": "paris.db"}, {}, "name another file, on another disk"),
        ({"rings": 5}, {}, "5 rings cannot share the keys evenly"),
        ({"rings": 2}, {"site_id": "paris-2"}, "paris-2 is the name of ring 2, but the 2 rings count from 0"),
        ({}, {"database_url": "postgresql+psycopg://me@host/paris"}, "SQLite files"),
        ({}, {"ingest": False}, "set ingest"),
        ({}, {"initial_sync": "snapshot"}, "no snapshots"),
        ({}, {"peers": {"a": "tcp://h:1", "b": "tcp://h:2"}, "replicas": {"c": ["a", "b"]}}, "no replicas"),
        ({}, {"tick_bytes": 9_000_000}, "lower tick_rows .5000. and tick_bytes .9000000."),
        ({}, {"tick_rows": 6_000}, "at most 5000 rows"),
        ({}, {"max_message_bytes": 8_000_000, "max_payload_bytes": 1_000_000}, "set at least 16777216"),
    ],
)
def test_each_mistake_gets_one_sentence(ring: dict[str, Any], others: dict[str, Any], words: str):
    with pytest.raises(ConfigurationError, match=words) as refused:
        settings(ring, **others)
    assert "\n" not in str(refused.value)
