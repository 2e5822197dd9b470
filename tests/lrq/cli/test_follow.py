"""`lrq follow` and `lrq unfollow`, on both databases."""

import json
from collections.abc import Callable

import pytest
from sqlalchemy import Engine

from queues.database import dialects
from tests.lrq.cli.command import Command, Done

Type = Callable[..., Done]


@pytest.fixture
def table(site: Engine) -> str:
    with site.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE orders (id integer PRIMARY KEY, branch text)")
    return "orders"


@pytest.fixture
def typed(lrq: Command, site: Engine) -> Type:
    database = site.url.render_as_string(hide_password=False)
    return lambda *words: lrq(*words, "--database", database)


def followed(site: Engine) -> list[tuple[str, tuple[str, ...]]]:
    with site.connect() as connection:
        return [(each.client, each.destinations) for each in dialects.of(connection).followed_tables(connection)]


def test_a_table_is_followed_and_followed_no_more(site: Engine, table: str, typed: Type):
    done = typed("follow", table, "--client", "shop", "--to", "lima, tokyo", "--to", "oslo")
    assert (done.code, done.out) == (0, "client shop follows orders for lima, tokyo, oslo\n")
    assert followed(site) == [("shop", ("lima", "tokyo", "oslo"))]
    done = typed("follow", table, "--client", "shop", "--sites-column", "branch")
    assert (done.code, done.out) == (0, "client shop follows orders for the sites in column branch\n")
    assert followed(site) == [("shop", ())]
    done = typed("unfollow", table, "--client", "shop")
    assert (done.code, done.out) == (0, "client shop follows orders no more\n")
    assert followed(site) == []


def test_the_output_as_json(table: str, typed: Type):
    done = typed("follow", table, "--client", "shop", "--to", "lima", "--json")
    assert json.loads(done.out) == {
        "site": "paris", "table": "orders", "client": "shop", "sites": ["lima"], "sites_column": None, "origin": "any",
    }  # fmt: skip
    done = typed("unfollow", table, "--client", "shop", "--json")
    assert json.loads(done.out) == {"site": "paris", "table": "orders", "client": "shop"}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("follow", "nothing", "--client", "c", "--to", "lima"), "nothing"),
        (("follow", "orders", "--client", "c"), "give either destinations or a column that names them"),
        (("follow", "orders", "--client", "c", "--to", "paris"), "this site itself"),
        (("follow", "orders", "--client", "c", "--to", "lima", "--origin", "all"), "choose any, other or none"),
        (("follow", "orders", "--client", "c", "--sites-column", "nothing"), "has no column"),
        (
            ("follow", "lrq_site", "--client", "c", "--to", "lima"),
            "is a table of lrq: follow tables of the application",
        ),
        (("unfollow", "orders", "--client", "c"), "correct the client or the table"),
    ],
)
def test_an_error_is_one_sentence(site: Engine, table: str, typed: Type, words: tuple[str, ...], sentence: str):
    done = typed(*words)
    assert done.code == 2
    assert sentence in done.err
    assert len(done.err.splitlines()) == 1
    assert followed(site) == []
