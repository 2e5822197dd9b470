"""`lrq work --copy`: the tables that it names, and the process that copies them."""

import pytest
from sqlalchemy import Engine, text

from lrq.cli.copies import copied_tables
from queues.errors import UsageError
from tests.conftest import NewSite
from tests.lr_client.subscriber.arrivals import Arrivals
from tests.lr_client.tables.changes import change
from tests.lrq.cli.command import lrq_process


def at(engine: Engine) -> tuple[str, str]:
    return "--database", engine.url.render_as_string(hide_password=False)


@pytest.mark.parametrize(
    ("option", "tables"),
    [
        ("shop:orders", {"orders": "orders"}),
        ("shop: public.orders , items", {"public.orders": "public.orders", "items": "items"}),
        ("shop:orders=archive.orders,items", {"orders": "archive.orders", "items": "items"}),
        ('shop:"a,b"="c""=",d', {'"a,b"': '"c""="', "d": "d"}),
    ],
)
def test_an_option_names_a_client_and_its_tables(option: str, tables: dict[str, str]):
    (found,) = copied_tables([option], "branch", None)
    assert (found.client_name, found._copies._targets, found._rule.source_column) == ("shop", tables, "branch")


def test_the_columns_that_decide_stand_between_commas():
    (found,) = copied_tables(["shop:orders"], None, "version, site")
    assert found._rule.greatest == ("version", "site")


@pytest.mark.parametrize("option", ["shop", "shop:", "shop:,", "shop:a,", "shop:a,,b", "shop:a=", 'shop:"a', ":a=b=c"])
def test_another_text_is_refused(option: str):
    with pytest.raises(UsageError, match=r"is no CLIENT:TABLE,\.\.\.: write both, such as shop:public\.orders"):
        copied_tables([option], None, None)


def test_a_malformed_table_or_client_is_refused():
    for option in ("shop:a b", "a b:orders", ":orders"):
        with pytest.raises(UsageError):
            copied_tables([option], None, None)


@pytest.mark.processes
@pytest.mark.long
class TestProcess:
    @pytest.fixture
    def lima(self, new_site: NewSite) -> Engine:
        return new_site("lima")

    def test_the_present_changes_are_copied(self, lima: Engine):
        with lima.begin() as connection:
            connection.exec_driver_sql("CREATE TABLE orders (id integer PRIMARY KEY, name text, site text)")
        Arrivals(lima, client="shop").tick([change("public.sales", row={"id": 1, "name": "tea"})])
        options = ("--copy", "shop:public.sales=orders", "--source-column", "site", "--once")
        done = lrq_process("work", *options, *at(lima))
        assert (done.returncode, done.stdout) == (0, b"shop: 1 entry applied\n"), done.stderr
        with lima.connect() as connection:
            assert connection.execute(text("SELECT * FROM orders")).all() == [(1, "tea", "tokyo")]

    def test_wrong_options_are_one_line_errors(self, lima: Engine):
        for options, code, sentence in (
            ((), 2, b"no listener is named: write MODULE:LISTENER, or --copy CLIENT:TABLE"),
            (("--source-column", "a"), 2, b"--source-column belongs to --copy: name the tables to copy"),
            (("--greatest", "a"), 2, b"--greatest belongs to --copy: name the tables to copy"),
            (("--copy", "shop:orders"), 1, b"there is no table orders: create it, or correct the name"),
            (
                ("--copy", "policy:orders", "tests.lrq.cli.worker_application:apply"), 2,
                b"tests.lrq.cli.worker_application:apply and --copy both listen to client 'policy': name one of them",
            ),
        ):  # fmt: skip
            done = lrq_process("work", *options, "--once", *at(lima))
            assert (done.returncode, done.stderr) == (code, b"lrq: " + sentence + b"\n")
