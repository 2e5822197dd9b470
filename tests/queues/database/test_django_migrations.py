"""`queues.upgrade` works in `RunPython`, in a project of Django that migrates in a process of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Engine, NullPool, create_engine, inspect, text

import queues
from queues.database import migrations
from queues.errors import ConfigurationError
from tests.house.page_blocks import take

#: The migration of the page, without its imports.
(ON_THE_PAGE,) = take(__name__, "docs/database.md", "py")
pytestmark = [pytest.mark.long, pytest.mark.processes]
ROOT = Path(__file__).parents[3]

PROJECT = """
import json, os, sys
import django
from django.conf import settings
from django.core.management import call_command

settings.configure(
    DATABASES={"default": json.loads(os.environ["DATABASE"])}, INSTALLED_APPS=["shop"], USE_TZ=True,
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
)
django.setup()
if sys.argv[1] == "python":
    exec(sys.argv[2])
else:
    call_command(*sys.argv[1:], verbosity=0)
"""
MODELS = """
from django.db import models

class Rule(models.Model):
    name = models.TextField()
"""
MIGRATION = """
import queues
from django.db import migrations, models

def create(apps, schema_editor):
    queues.upgrade(schema_editor.connection, site_id="paris")

def remove(apps, schema_editor):
    queues.downgrade(schema_editor.connection)

def insert(apps, schema_editor):
    apps.get_model("shop", "Rule").objects.create(name="first")
    {last}

class Migration(migrations.Migration):
    initial = True
    operations = [
        migrations.RunPython(create, remove),
        migrations.CreateModel("Rule", [("id", models.BigAutoField(primary_key=True)), ("name", models.TextField())]),
        migrations.RunPython(insert, migrations.RunPython.noop),
    ]
"""


@pytest.fixture
def plain(new_database: Callable[[], str]):
    made = create_engine(new_database(), poolclass=NullPool)
    yield made
    made.dispose()


@pytest.fixture
def manage(plain: Engine, tmp_path: Path):
    """Give a function that runs a command of a project of Django over the database of `plain`."""
    pytest.importorskip("django")
    shop = tmp_path / "shop"
    (shop / "migrations").mkdir(parents=True)
    for folder in (shop, shop / "migrations"):
        (folder / "__init__.py").touch()
    (shop / "models.py").write_text(MODELS)
    (tmp_path / "project.py").write_text(PROJECT)
    (shop / "migrations" / "0001_initial.py").write_text(MIGRATION.format(last=""))
    url = plain.url
    facts = {"ENGINE": "django.db.backends.sqlite3", "NAME": url.database}
    if plain.dialect.name == "postgresql":
        facts = {"ENGINE": "django.db.backends.postgresql", "NAME": url.database, "USER": url.username or ""}
        facts |= {"PASSWORD": url.password or "", "HOST": url.host or url.query.get("host", "")}
        facts |= {"PORT": str(url.port or url.query.get("port", ""))}
    surroundings = os.environ | {"DATABASE": json.dumps(facts), "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "project.py", *words],
            cwd=tmp_path, env=surroundings, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    return run


def tables_in(engine: Engine) -> set[str]:
    with engine.connect() as connection:
        return set(inspect(connection).get_table_names())


def test_a_migration_of_django_creates_and_removes_the_tables(plain: Engine, manage):
    assert manage("migrate").stderr == ""
    migrations.check(plain, site_id="paris")
    with plain.connect() as connection:
        assert connection.execute(text("SELECT name FROM shop_rule")).scalars().all() == ["first"]
    assert manage("migrate", "shop", "zero").stderr == ""
    assert tables_in(plain) == {"django_migrations"}


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_the_migration_of_the_page_creates_and_removes_the_tables(plain: Engine, manage, tmp_path: Path):
    imports = "import queues\nfrom django.db import migrations\n\n\n"
    (tmp_path / "shop" / "migrations" / "0001_initial.py").write_text(imports + ON_THE_PAGE)
    assert manage("migrate").stderr == ""
    migrations.check(plain, site_id="paris")
    assert manage("migrate", "shop", "zero").stderr == ""
    assert tables_in(plain) == {"django_migrations"}


def test_a_failed_migration_of_django_leaves_nothing(plain: Engine, manage, tmp_path: Path):
    (tmp_path / "shop" / "migrations" / "0001_initial.py").write_text(MIGRATION.format(last="1 / 0"))
    assert "ZeroDivisionError" in manage("migrate").stderr
    assert tables_in(plain) == {"django_migrations"}


def test_a_connection_of_django_outside_a_transaction_is_refused(plain: Engine, manage):
    done = manage("python", "import queues; from django.db import connection as c; queues.upgrade(c, site_id='paris')")
    assert "NotInTransactionError: queues.upgrade needs a transaction" in done.stderr
    assert tables_in(plain) == set()


def test_the_functions_of_django_on_a_connection_of_sqlite_stay(manage, dialect: str):
    if dialect != "sqlite":
        pytest.skip("PostgreSQL has no functions of a connection")
    # A number is no text for the function of SQLAlchemy.
    code = (
        "import queues\nfrom django.db import connection, transaction\n"
        "with transaction.atomic():\n    queues.upgrade(connection, site_id='paris')\n"
        "with connection.cursor() as cursor:\n"
        "    print(cursor.execute('SELECT 12 REGEXP %s', ['1']).fetchone())"
    )
    assert manage("python", code).stdout == "(1,)\n"


def test_a_connection_of_django_to_another_database_is_refused(dialect: str):
    class OfOracle:
        vendor = "oracle"

        def ensure_connection(self) -> None: ...

    with pytest.raises(ConfigurationError, match="no tables for 'oracle'"):
        queues.upgrade(OfOracle(), site_id=dialect)
