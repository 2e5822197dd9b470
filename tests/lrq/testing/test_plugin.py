"""The pytest plugin gives its fixtures to the tests of an application, and costs nothing elsewhere."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
pytestmark = [pytest.mark.processes, pytest.mark.long]

ROOT = Path(__file__).parents[3]

TESTS = """
    import pytest
    from lr_client import RoutingQueueListener, RoutingQueueSenderClient
    from lrq.testing import Transmitted, deliver, transmitted

    class Keeper(RoutingQueueListener):
        client_name = "policy"

        def __init__(self):
            self.payloads = []

        def process_updates_in_log_entry_sync(self, session, source_id, entries):
            self.payloads += [entry.opaque_payload for entry in entries]
            return True

        process_updates_in_snapshot_sync = process_updates_in_log_entry_sync

    def test_site(lrq_site):
        assert (lrq_site.site_id, lrq_site.server) == ("paris", None)
        with lrq_site.session() as session:
            RoutingQueueSenderClient("policy").transmit_log_entry_message(session, b"1", ["tokyo"])
            assert transmitted(session) == [Transmitted("policy", ("tokyo",), b"1")]

    def test_deliver(lrq_site):
        keeper = Keeper()
        assert deliver(lrq_site.engine, keeper, [b"1"], source="tokyo")
        assert keeper.payloads == [b"1"]

    def test_pair(lrq_pair):
        paris, tokyo = lrq_pair
        keeper = Keeper()
        tokyo.subscribe(keeper)
        paris.send("policy", b"1")
        paris.settle()
        assert keeper.payloads == [b"1"]
"""


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    """Run pytest in a process with the plugin of this checkout, not with an installed one."""
    plugins = ("-p", "no:lrq", "-p", "lrq.testing.plugin", "-p", "no:cacheprovider")
    return pytester.runpytest_subprocess(*plugins, "--strict-markers", "-W", "error", *arguments)


def test_the_fixtures_work_in_the_tests_of_an_application(pytester: pytest.Pytester):
    pytester.makepyfile(TESTS)
    run(pytester).assert_outcomes(passed=3)


def test_the_ini_file_and_the_mark_name_the_sites(pytester: pytest.Pytester):
    pytester.makeini("[pytest]\nlrq_site = lima\nlrq_sites = lima oslo")
    pytester.makepyfile(
        """
        import pytest

        def names(sites):
            return [site.site_id for site in sites]

        def test_ini(lrq_site, lrq_pair):
            assert (lrq_site.site_id, names(lrq_pair)) == ("lima", ["lima", "oslo"])

        @pytest.mark.lrq(site="rome", sites=["rome", "bern", "kyiv"], heartbeat_seconds=0.5)
        class TestMarked:
            def test_class(self, lrq_site, lrq_pair):
                assert (lrq_site.site_id, names(lrq_pair)) == ("rome", ["rome", "bern", "kyiv"])

            @pytest.mark.lrq(site="nice")
            def test_nearest(self, lrq_site, lrq_pair):
                assert (lrq_site.site_id, len(lrq_pair)) == ("nice", 3)
        """
    )
    run(pytester).assert_outcomes(passed=3)


def test_a_wrong_mark_is_explained(pytester: pytest.Pytester):
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.lrq("rome")
        def test_position(lrq_site): ...

        @pytest.mark.lrq(sites="rome bern")
        def test_text(lrq_pair): ...

        @pytest.mark.lrq(heartbeat=1)
        def test_setting(lrq_pair): ...
        """
    )
    done = run(pytester)
    done.assert_outcomes(errors=3)
    done.stdout.fnmatch_lines(["*write @pytest.mark.lrq(site='paris')*"])
    done.stdout.fnmatch_lines(["*write sites=?'paris', 'tokyo'?*"])
    done.stdout.fnmatch_lines(["*ConfigurationError: *heartbeat*"])


def test_the_fixtures_and_the_mark_are_listed(pytester: pytest.Pytester):
    listed = run(pytester, "--fixtures", "--markers").stdout.str()
    assert "@pytest.mark.lrq(site=, sites=, folder=, **settings)" in listed
    listed = run(pytester, "--fixtures").stdout.str()
    assert "lrq_site" in listed
    assert "lrq_pair" in listed


def test_an_import_of_the_plugin_loads_no_library_and_no_part_of_lrq():
    parts = "{'queues', 'lr_client', 'lr_server', 'sink', 'discovery', 'sqlalchemy', 'grpc', 'google', 'pydantic'}"
    code = f"import sys, lrq.testing.plugin; print(sorted({parts} & set(sys.modules)))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"


def test_pytest_finds_the_plugin_of_an_installed_lrq_by_itself():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"lrq": "lrq.testing.plugin"}


def test_the_package_gives_each_of_its_names():
    import lrq.testing

    assert lrq.testing.__all__ == sorted(lrq.testing.__all__)
    assert all(callable(getattr(lrq.testing, name)) for name in lrq.testing.__all__)
    assert set(lrq.testing.__all__) <= set(dir(lrq.testing))
    with pytest.raises(AttributeError, match=r"module 'lrq\.testing' has no attribute 'nothing'"):
        _ = lrq.testing.nothing
