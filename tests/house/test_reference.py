"""The generated references of the documentation have every setting, command, metric, error and public name."""

import re
from pathlib import Path

import pytest

from lr_server.metrics.metrics_server import families
from lr_server.settings import Settings
from queues.send_log.call_errors import CODES
from tests.discovery.statuses import a_site
from tools.reference import commands, errors, metrics, python_api, settings
from tools.reference.extension import PARTS, with_parts
from tools.reference.tables import table

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
#: Codes without an error of their own in Python.
WITHOUT_ERROR = {"LR009", "LR010"}


def test_each_part_stands_on_one_page():
    marks = [mark for page in PAGES for mark in re.findall(r"^<!-- reference: (\w+) -->$", page.read_text(), re.M)]
    assert sorted(marks) == sorted(PARTS)


def test_a_mark_without_a_part_is_an_error():
    with pytest.raises(KeyError, match="nothing"):
        with_parts("<!-- reference: nothing -->")
    assert with_parts("text\n") == "text\n"


def test_the_reference_has_every_setting_with_its_meaning_and_default():
    text = settings.settings()
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", text, re.MULTILINE))
    assert sorted(rows) == sorted(Settings.model_fields)
    assert (rows["site_id"], rows["receive_bytes"], rows["lease_seconds"]) == ("required", "1 GiB", "`10.0`")


def test_a_setting_without_words_stops_the_build(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Settings, "__doc__", (Settings.__doc__ or "").replace("        retry_limit: ", "        "))
    with pytest.raises(LookupError, match="differ: retry_limit"):
        settings.settings()


def test_the_reference_has_every_metric_with_labels():
    text = metrics.metrics()
    there = {f"{each.name}_total" if each.type == "counter" else each.name for each in families(a_site())}
    named = set(re.findall(r"^\| `(lrq_\w+)` \|", text, re.MULTILINE))
    assert named > there | {"lrq_database_up", "lrq_ingest_waiting", "lrq_worker_entries_total"}
    assert "| `lrq_session_state` | gauge | `client`, `destination`, `site`, `state` |" in text
    assert "| `lrq_worker_batch_seconds` | histogram | `client`, `source` |" in text


def test_the_reference_has_a_section_for_every_command():
    headings = re.findall(r"^##+ `(lrq [a-z -]+)`$", commands.commands(), re.MULTILINE)
    assert set(headings) >= set(commands.names()) >= {"lrq serve", "lrq park list"}
    assert len(headings) == len(set(headings))
    assert "lrq park retry [OPTIONS] [ID]..." in commands.commands()


def test_the_reference_has_every_error_and_says_the_remedy():
    text = errors.errors()
    assert {name for name in errors.advice() if f"`{name}` |" not in text} == {"LrqError"}
    assert "**To do:** correct the call; nothing was written." in text
    assert (
        "`InvalidNameError` | A site id, client name, destination or queue name is malformed. | `ValueError` |" in text
    )


def test_an_error_outside_the_drawing_stops_the_build(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(errors.tree, "__doc__", (errors.tree.__doc__ or "").replace("+ TrimmedError", "+ Trimmed"))
    with pytest.raises(LookupError, match="differ: Trimmed, TrimmedError"):
        errors.errors()


def test_the_page_of_sql_has_every_code():
    rows = dict(re.findall(r"^\| `(LR\d+)` \| `?(\w+)`? \|", (ROOT / "docs" / "sql.md").read_text(), re.MULTILINE))
    scripts = "".join(path.read_text() for path in (ROOT / "alembic" / "versions").glob("*.py"))
    assert set(rows) == set(re.findall(r"\bLR0\d\d\b", scripts)) == {*CODES, *WITHOUT_ERROR}
    assert {code: rows[code] for code in CODES} == {code: error.__name__ for code, error in CODES.items()}


def test_the_reference_has_every_public_name():
    text = python_api.python_api()
    for package in python_api.PACKAGES:
        assert [name for name in python_api.public_names(package) if f"{package}.{name}" not in text] == []
        assert python_api.public_names(package)


def test_a_cell_has_neither_bars_nor_line_breaks_nor_tags():
    assert table(["a"], [["x | <y>\n`<z>`"]]) == "| a |\n| --- |\n| x \\| &lt;y> `<z>` |\n"
