"""`docs/copied-tables.md`: the table of a hub, and the listener of a program; the rest is in `test_typed_pages`."""

from typing import Any

from sqlalchemy import Engine, text

from tests.house.page_blocks import take
from tests.lr_client.tables.changes import apply, change

(HUB,) = take(__name__, "docs/copied-tables.md", "sql")
(PROGRAM,) = take(__name__, "docs/copied-tables.md", "python", begin="# copies.py")


def test_the_hub_has_the_rows_of_each_branch(site: Engine):
    names: dict[str, Any] = {}
    exec(PROGRAM, names)
    with site.begin() as connection:
        connection.exec_driver_sql(HUB)
    for branch in ("north", "south"):
        order = change("public.orders", row={"id": 1, "name": branch, "price": 2})
        apply(site, names["shop"], order, change("public.audit", row={"id": 1}), source=branch)
    with site.connect() as connection:
        found = connection.execute(text("SELECT branch, id, name FROM orders ORDER BY branch")).all()
    assert found == [("north", 1, "north"), ("south", 1, "south")]
