"""`lrq grant`: the rights of a part of the application for one role of PostgreSQL."""

import pytest
from sqlalchemy import Engine

from lr_client import RoutingQueueSenderClient
from tests.lrq.cli.command import Command
from tests.system import roles


@pytest.fixture
def url(site: Engine) -> str:
    return site.url.render_as_string(hide_password=False)


def test_a_role_gets_the_rights_of_a_sender(lrq: Command, url: str, site: Engine, dialect: str):
    if dialect == "sqlite":
        done = lrq("grant", "app", "--as", "sender", "--database", url)
        assert (done.code, done.error.startswith("SQLite has no roles")) == (1, True)
        assert lrq("grant", "app", "--as", "sender", "--sql", "--database", url).error.startswith("SQLite has no roles")
        return
    with roles.new_role(site) as role:
        done = lrq("grant", role, "--as", "sender", "--database", url)
        assert done.out == f"paris: role {role} has the rights of a sender on lrq's tables in schema public\n"
        assert lrq("grant", role, "--as", "sender", "--database", url, "--json").json["schema"] == "public"
        with roles.engine_of(site, role) as engine, engine.begin() as connection:
            RoutingQueueSenderClient("policy").transmit_log_entry_message(connection, b"1", ["tokyo"])


def test_an_unknown_role_is_one_sentence(lrq: Command, url: str, dialect: str):
    if dialect == "sqlite":
        pytest.skip("SQLite has no roles")
    done = lrq("grant", "nobody", "--as", "server", "--database", url)
    assert (done.code, "the database has no role 'nobody'" in done.error) == (1, True)
    assert lrq("grant", "nobody", "--as", "king", "--database", url).code == 2


@pytest.mark.parametrize("part", ["sender", "subscriber", "server"])
def test_the_statements_are_printed_without_a_database(lrq: Command, part: str, dialect: str):
    url = "postgresql+psycopg://db.example/app"
    done = lrq("grant", 'a "b"', "--as", part, "--sql", "--database", f"{url}?lrq_schema=lrq", "--search-path")
    assert done.code == 0
    assert done.out.startswith('GRANT USAGE ON SCHEMA "lrq" TO "a ""b"""')
    assert '"lrq".lrq_site' in done.out
    assert "ALTER ROLE" in done.out
    assert "set `schema`" in lrq("grant", "a", "--as", part, "--sql", "--database", url, "--search-path").error
    assert dialect
