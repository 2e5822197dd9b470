"""`lrq init --example`: the file loads as it is, and every line of it is true."""

import re
import tomllib
from pathlib import Path

import pytest

from lr_server import Settings
from lrq.cli.example_file import EXAMPLE
from tests.lrq.cli.command import Command

#: A setting that is commented out.
SHOWN = re.compile(r"^# ([a-z_]+ = .*)$", re.MULTILINE)
#: Settings without a default value that could be shown: the example has a value in its place.
WITHOUT_DEFAULT = ("tls_certificate", "tls_key", "tls_authority", "metrics")


def test_the_example_loads_as_it_is(lrq: Command) -> None:
    done = lrq("init", "--example")
    assert (done.code, "lrq init --config lrq.toml" in done.out) == (0, True)
    settings = Settings.load("lrq.toml")
    assert (settings.site_id, settings.peers, settings.initial_sync) == ("paris", {}, "auto")
    assert lrq("init").code == 0
    assert [line for line in lrq("doctor").out.splitlines() if line.startswith("problem")] == []


def test_the_example_is_also_printed(lrq: Command) -> None:
    assert lrq("init", "--example", "-").out == EXAMPLE


def test_the_example_goes_to_another_file_on_request(lrq: Command) -> None:
    assert lrq("init", "--example", "tokyo.toml").code == 0
    assert Path("tokyo.toml").read_text() == EXAMPLE
    refused = lrq("init", "tokyo.toml")
    assert (refused.code, "--config" in refused.error) == (2, True)


def test_a_file_that_exists_is_not_replaced(lrq: Command) -> None:
    Path("lrq.toml").write_text("mine")
    done = lrq("init", "--example", "lrq.toml")
    assert (done.code, "lrq.toml exists" in done.error) == (1, True)
    assert Path("lrq.toml").read_text() == "mine"


@pytest.mark.parametrize("line", SHOWN.findall(EXAMPLE))
def test_each_commented_setting_shows_its_default_and_is_valid(line: str) -> None:
    ((name, value),) = tomllib.loads(line).items()
    if name == "tokyo":
        assert "tokyo" in Settings(site_id="paris", database_url="sqlite:///x.db", peers={name: value}).peers
        return
    default = Settings.model_fields[name].default
    if name in WITHOUT_DEFAULT:
        assert default is None
    else:
        assert value == (list(default) if isinstance(default, tuple) else default)
        assert type(value) is (list if isinstance(default, tuple) else type(default))


def test_all_lines_together_are_valid() -> None:
    Path("lrq.toml").write_text(SHOWN.sub(r"\1", EXAMPLE))
    settings = Settings.load("lrq.toml")
    assert settings.peers == {"tokyo": "tcp://127.0.0.1:7401"}
    assert settings.credentials is not None
