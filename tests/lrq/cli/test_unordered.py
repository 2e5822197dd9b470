"""`lrq trim` and `lrq status` report, send or drop entries without a place in the order of commits."""

import pytest

from queues.database import leases
from tests.lrq.cli.command import Command
from tests.lrq.cli.source import SourceSite
from tests.queues.unordered import transmit, trigger_off


@pytest.fixture(params=["postgresql"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def ask(lrq: Command, source: SourceSite):
    """Give a function that runs a command of `lrq` on the site."""
    return lambda *arguments: lrq(*arguments[:1], "--database", source.url, *arguments[1:])


@pytest.fixture
def lost(source: SourceSite) -> None:
    """Write two unordered entries and one that tokyo has; no server works."""
    with trigger_off(source.engine):
        transmit(source.engine, b"a", b"b")
    source.transmit(b"last", to=["tokyo"])
    source.session("tokyo", source.tick())
    held = leases.holder(source.engine, "server")
    assert held is not None
    leases.release(source.engine, held.lease)


WORDS = "2 entries of policy without a place in the order of commits: no site gets them"


def test_trim_keeps_and_reports_unordered_entries(ask, lost):
    done = ask("trim", "--rotate")
    assert done.code == 3
    assert "0 segments emptied" in done.out
    assert WORDS in done.out
    assert "holds unordered entries" in done.out
    facts = ask("trim", "--json")
    assert facts.code == 3
    assert facts.json["unordered"] == [{"client": "policy", "waiting": 2, "dropped": 0}]
    assert [segment["unordered"] for segment in facts.json["segments"]] == [True]


def test_status_reports_unordered_entries_that_trim_has_found(ask, lost):
    assert ask("status").code == 0
    ask("trim")
    done = ask("status")
    assert done.code == 3
    assert WORDS in " ".join(done.out.split())


def test_send_unordered_sends_them_beside_a_server(ask, lost, source: SourceSite):
    ask("trim")
    assert leases.acquire(source.engine, "server", "a server", ttl=60)
    done = ask("trim", "--send-unordered")
    assert done.code == 0
    assert "2 unordered entries sent" in done.out
    held = leases.holder(source.engine, "server")
    assert held is not None
    leases.release(source.engine, held.lease)
    assert source.tick() == 3
    assert ask("status").code == 0


def test_drop_unordered_deletes_them(ask, lost):
    ask("trim")
    facts = ask("trim", "--drop-unordered", "--rotate", "--json")
    assert (facts.code, facts.json["deleted"], facts.json["trimmed"]["segments"]) == (0, 2, 1)


def test_unordered_entries_past_retention_are_trimmed_and_reported_until_dropped(ask, lost):
    ask("trim", "--rotate")
    assert "unordered entries will go unsent" in ask("trim", "--dry-run", "--retention-seconds", "0").out
    done = ask("trim", "--retention-seconds", "0")
    assert done.code == 3
    assert "2 entries that had no place in the order of commits went unsent" in done.out
    assert "2 entries of policy were trimmed and never sent" in " ".join(ask("status").out.split())
    assert ask("trim", "--drop-unordered").code == 0
    assert ask("status").code == 0


def test_status_and_trim_report_a_disabled_trigger(ask, source: SourceSite):
    with trigger_off(source.engine):
        for command in ("status", "trim"):
            done = ask(command)
            assert done.code == 3
            assert "does not always fire on lrq_log_entries_0" in " ".join(done.out.split())
        refused = ask("trim", "--send-unordered")
        assert (refused.code, "ENABLE ALWAYS TRIGGER" in refused.error) == (1, True)
    assert ask("status").code == 0


def test_send_drop_and_dry_run_exclude_each_other(ask):
    assert ask("trim", "--send-unordered", "--drop-unordered").code == 2
    assert ask("trim", "--send-unordered", "--dry-run").code == 2


@pytest.mark.parametrize("option", ["--send-unordered", "--drop-unordered"])
@pytest.mark.parametrize("dialect", ["sqlite"])
def test_sqlite_has_no_unordered_entries(ask, option: str, dialect: str):
    done = ask("trim", option)
    assert done.code == 0
    assert ask("status", "--json").json["log"]["unordered"] == []
