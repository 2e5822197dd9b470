"""The examples of `docs/spark-log.md` run, one after the other."""

import re
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from lr_client.spark.log import write_options
from tests.house.page_blocks import take
from tests.lr_client.spark.sources.log_writing import Site, feed

EXAMPLES = take(__name__, "docs/spark-log.md", "python")
PAGE = (Path(__file__).parents[4] / "docs" / "spark-log.md").read_text()


@pytest.mark.spark
@pytest.mark.timeout(300)
@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_the_examples_of_the_page_write_the_log(spark: Any, site: Engine, tmp_path: Path) -> None:
    feed(tmp_path / "in", "1", "click")
    paris = Site(site)
    names = {
        "spark": spark,
        "orders": spark.createDataFrame([("1", "order")], "id string, body string"),
        "clicks": spark.readStream.format("text").load(str(tmp_path / "in")),
        "URL": paris.url,
        "CHECKPOINT": str(tmp_path / "checkpoint"),
    }
    assert len(EXAMPLES) == 4
    for example in EXAMPLES:
        exec(example, names)
    found = [(entry.client, entry.payload.decode(), entry.item_key, entry.destinations) for entry in paris.entries()]
    assert found == [
        ("orders", "order", "1", ("lima", "tokyo")),
        ("clicks", "click", None, ("lima", "tokyo")),
        ("orders", "order", None, ("tokyo",)),
        ("clicks", "click", None, ("lima",)),
    ]


def test_the_page_names_every_option_and_column() -> None:
    rows = re.findall(r"^\| (`[^|]+) \|", PAGE, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    options = set(write_options.LogWriteOptions.__dataclass_fields__)
    assert named == options | set(write_options._COLUMNS)
