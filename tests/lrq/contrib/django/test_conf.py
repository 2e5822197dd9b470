"""The setting `LRQ`: each mistake is one sentence with its cure."""

import pytest

from lrq.contrib.django import conf
from queues.errors import ConfigurationError

DATABASES = {"default": {}, "orders": {}}


@pytest.mark.parametrize(
    ("given", "numbers"),
    [
        ({"SITE_ID": "paris"}, []),
        ({"SITE_ID": "paris", "DATABASE": "orders", "MAX_PAYLOAD_BYTES": 10}, []),
        (None, [1]),
        ("paris", [1]),
        ({}, [2]),
        ({"SITE_ID": "not a site"}, [2]),
        ({"SITE_ID": 3}, [2]),
        ({"SITE_ID": "paris", "DATABASE": "other"}, [3]),
        ({"SITE_ID": "paris", "DATABASE": ["default"]}, [3]),
        ({"SITE_ID": "paris", "DATABASE": None}, [3]),
        ({"SITE_ID": "paris", "MAX_PAYLOAD_BYTES": 0}, [4]),
        ({"SITE_ID": "paris", "MAX_PAYLOAD_BYTES": "many"}, [4]),
        ({"SITE_ID": "paris", "SITE": "paris"}, [5]),
        ({"DATABASE": "other", "MAX_PAYLOAD_BYTES": -1, "x": 1}, [2, 3, 4, 5]),
    ],
)
def test_each_mistake_has_its_number(given: object, numbers: list[int]):
    found = list(conf.problems(given, DATABASES))
    assert [each.number for each in found] == numbers
    assert all(each.text.endswith(".") and each.hint.endswith(".") for each in found)
    if numbers:
        with pytest.raises(ConfigurationError, match=r".+\. .+\.$"):
            conf.read(given, DATABASES)


def test_the_settings_have_defaults():
    assert conf.read({"SITE_ID": "paris"}, DATABASES) == conf.AppSettings("paris", "default")
    assert conf.read({"SITE_ID": "paris", "DATABASE": "orders"}, DATABASES).database == "orders"
