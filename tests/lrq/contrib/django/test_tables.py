"""`manage.py migrate` creates, upgrades and removes lrq's tables; `manage.py check` compares them with the settings."""

from collections.abc import Callable

import pytest
from sqlalchemy import Engine, NullPool, inspect

import queues
from queues.database import migrations
from queues.database.schema import SCHEMA
from tests.lrq.contrib.django.conftest import NewProject
from tests.lrq.contrib.django.project import Project

pytestmark = [pytest.mark.long, pytest.mark.processes, pytest.mark.timeout(480)]


def tables_of_lrq(engine: Engine) -> list[str]:
    return [name for name in inspect(engine).get_table_names() if name.startswith("lrq_")]


def schema(project: Project) -> list[object]:
    return project.sql("SELECT version_num FROM lrq_alembic_version")


def older(project: Project) -> None:
    """Give the project the tables of an earlier version of lrq."""
    with project.engine.begin() as connection:
        queues.downgrade(connection, revision="0011")
    assert schema(project) == ["0011"]


@pytest.fixture
def empty(new_database: Callable[[], str]):
    engine = queues.create_engine(new_database(), poolclass=NullPool)
    yield Project(engine, "office")
    engine.dispose()


def test_migrate_creates_the_tables_of_the_site_and_removes_them(empty: Project):
    empty.manage("migrate", "--verbosity", "0")
    migrations.check(empty.engine, site_id="office")
    assert empty.manage("makemigrations", "--check", "--dry-run") == "No changes detected\n"
    empty.manage("migrate", "lrq", "zero", "--verbosity", "0")
    assert tables_of_lrq(empty.engine) == []
    empty.manage("migrate", "--verbosity", "0")
    migrations.check(empty.engine, site_id="office")


def test_migrate_keeps_the_tables_that_init_has_made(empty: Project):
    queues.initialize(empty.engine, site_id="office")
    empty.manage("migrate", "--verbosity", "0")
    migrations.check(empty.engine, site_id="office")


def test_migrate_upgrades_the_tables_of_an_earlier_version(office: Project):
    older(office)
    warned = office.outcome("check", "--database", "default")
    assert f"lrq.W001) the tables have schema 0011, this lrq needs {SCHEMA}" in warned.stderr
    assert "HINT: For older tables, run manage.py migrate." in warned.stderr
    assert office.outcome("lrq_work", "shop.listeners:apply").stderr.endswith("`manage.py migrate` does that\n")
    office.manage("migrate", "--verbosity", "0")
    assert schema(office) == [SCHEMA]


def test_migrate_refuses_the_database_of_another_site(new_project: NewProject):
    project = new_project("office")
    project.environment["SHOP_SITE"] = "north"
    sentence = "the database belongs to site 'office', not to 'north': correct the site id or the database URL"
    done = project.outcome("migrate")
    assert f"(lrq.E007) {sentence}." in done.stderr
    assert done.returncode == 1


def test_a_check_names_the_mistakes_in_the_settings(office: Project, dialect: str):
    if dialect == "postgresql":
        pytest.skip("the settings are checked without a database")
    office.environment["SHOP_SITE"] = "not a site"
    done = office.outcome("check")
    assert done.returncode == 1
    assert "(lrq.E002) LRQ['SITE_ID']: 'not a site' is not a valid site id" in done.stderr


def test_dumpdata_passes_over_the_page_of_the_admin_site(office: Project):
    assert office.manage("dumpdata", "lrq") == "[]"
