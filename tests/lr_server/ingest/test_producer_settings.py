"""The settings of ingest contradict nothing."""

from typing import Any

import pytest

from lr_server import Settings
from queues.errors import ConfigurationError

GIVEN: dict[str, Any] = {"site_id": "paris", "database_url": "sqlite:///paris.db", "listen": ["tcp://127.0.0.1:0"]}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"ingest": True}, r'\[producers."meter-\*"\] with clients = \["meters"\]'),
        ({"ingest": True, "producers": {"*": {}}, "listen": []}, "nothing is in `listen`"),
        ({"producers": {"a b": {}}}, "'a b' is not a valid producer name"),
        ({"producers": {"a*b": {}}}, "'a\\*b' is not a valid producer name"),
        ({"producers": {"a": {"destination": ["tokyo"]}}}, "producers"),
    ],
)
def test_a_mistake_is_told_in_one_sentence(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        Settings(**{**GIVEN, **options})


def test_a_rule_may_be_empty_and_a_name_may_be_a_pattern() -> None:
    settings = Settings(**GIVEN, ingest=True, producers={"*": {}, "meter-*": {"clients": ["m"]}, "one": {}})
    assert list(settings.producers) == ["*", "meter-*", "one"]
