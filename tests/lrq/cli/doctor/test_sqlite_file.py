"""`lrq doctor` tells whether its user can write the file of a SQLite database."""

from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy

import queues
from lrq.cli.doctor import sqlite_file


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "paris.db"
    engine = queues.create_engine(f"sqlite:///{made}")
    queues.initialize(engine, site_id="paris")
    engine.dispose()
    return made


def found(file: Path, query: str = "") -> list[tuple[str, str]]:
    engine = sqlalchemy.create_engine(f"sqlite:///file:{file}?uri=true{query}")
    try:
        return [(each.level.value, each.sentence) for each in sqlite_file.look(engine)]
    finally:
        engine.dispose()


def test_a_file_that_this_user_cannot_write_is_a_problem(file: Path):
    sentence = "this user cannot write the file (attempt to write a readonly database)"
    assert ("problem", sentence) in found(file, "&mode=ro")
    assert ("ok", "this user may write the file") in found(file)


def test_a_transaction_of_another_program_is_no_problem_and_is_not_waited_for(file: Path):
    other = queues.create_engine(f"sqlite:///{file}")
    with closing(other.raw_connection()) as writing:
        writing.cursor().execute("BEGIN IMMEDIATE")
        assert ("ok", "this user may write the file") in found(file)
        writing.rollback()
    other.dispose()


def test_a_file_with_a_second_name_is_a_problem(file: Path, tmp_path: Path):
    engine = sqlalchemy.create_engine(f"sqlite:///{file}")
    (tmp_path / "link.db").hardlink_to(file)
    first = next(sqlite_file.look(engine))
    assert (first.level.value, first.cure) == ("problem", "remove the other hard links")
    engine.dispose()
