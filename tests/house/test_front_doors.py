"""The packages export exactly the names in their `__all__`."""

import ast
import importlib
import inspect
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

import lrq_packages
from queues import errors

ROOT = Path(__file__).parents[2]


def imported_names(package: str) -> list[str]:
    """Return the public names that the package's `__init__` imports from its modules, now or at their first use."""
    body = ast.parse((ROOT / package / "__init__.py").read_text()).body
    lazy = [node for each in body if isinstance(each, ast.If) for node in each.body]
    own = ("typing", "lr_client.producer.libraries")
    imports = (node for node in [*body, *lazy] if isinstance(node, ast.ImportFrom) and node.module not in own)
    found = [alias.asname or alias.name for node in imports for alias in node.names]
    return sorted(name for name in found if not name.startswith("_"))


FRONTS = [*sorted({*lrq_packages.PACKAGES} - {"lrq"}), "lr_client.producer"]


@pytest.mark.parametrize("package", FRONTS)
def test_all_is_sorted_and_complete(package: str):
    module = importlib.import_module(package)
    names = getattr(module, "__all__", [])
    assert names == imported_names(package.replace(".", "/"))
    assert all(getattr(module, name) is not None for name in names)


#: The packages that load their names at the first use.
LAZY = ["lr_client", "lr_server", "lrq", "lrq/console", "lrq/testing", "queues", "sink"]


@pytest.mark.parametrize("package", ["lr_client", "lr_server", "queues", "sink"])
def test_a_lazy_front_refuses_an_unknown_name(package: str):
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'Nothing'"):
        getattr(importlib.import_module(package), "Nothing")  # noqa: B009 - the name is wrong on purpose


@pytest.mark.parametrize("door", [ROOT / each / "__init__.py" for each in LAZY])
def test_no_lazy_front_has_a_type_checker_believe_a_misspelt_name(door: Path):
    seen = [node for node in ast.parse(door.read_text()).body if not isinstance(node, ast.If)]
    assert "__getattr__" not in " ".join(ast.unparse(node).partition("\n")[0] for node in seen)


@pytest.mark.parametrize("package", lrq_packages.PACKAGES)
def test_every_package_is_typed_and_has_a_docstring(package: str):
    assert (ROOT / package / "py.typed").exists()
    assert importlib.import_module(package).__doc__


def test_the_types_of_a_listener_s_parameters_have_public_names():
    import lr_client

    methods = [each for each in vars(lr_client.RoutingQueueListener).values() if inspect.isfunction(each)]
    hints = [hint for method in methods for hint in get_type_hints(method).values()]
    kinds = {kind for hint in hints for kind in (hint, *get_args(hint)) if isinstance(kind, type)}
    own = {kind for kind in kinds if kind.__module__.partition(".")[0] in lrq_packages.PACKAGES}
    assert own
    assert {kind.__name__ for kind in own} <= set(lr_client.__all__)
    assert all(getattr(lr_client, kind.__name__) is kind for kind in own)


def test_the_facade_gives_each_of_its_names():
    import lrq

    assert lrq.__all__ == sorted(lrq.__all__)
    assert all(getattr(lrq, name) is not None for name in lrq.__all__)
    assert set(lrq.__all__) <= set(dir(lrq))


def test_the_facade_gives_every_error_of_the_tree():
    import lrq

    for name, error in vars(errors).items():
        if isinstance(error, type) and issubclass(error, errors.LrqError):
            assert getattr(lrq, name) is error


def test_the_facade_refuses_an_unknown_name():
    import lrq

    for name in ("Nothing", "NothingError", "os"):
        with pytest.raises(AttributeError, match=f"module 'lrq' has no attribute '{name}'"):
            getattr(lrq, name)


def test_importing_the_facade_loads_no_other_package():
    code = (
        "import sys, lrq; print(sorted({'queues', 'lr_client', 'lr_server', 'sqlalchemy', 'grpc'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"


#: The libraries that the import of a package loads, without Python's own and their dependencies.
LOADED = {
    "queues": set(),
    "discovery": set(),
    "lr_client": set(),
    "lr_client.producer": {"google", "grpc"},
    "lr_server": set(),
    "sink": set(),
    "lrq": set(),
}
LIBRARIES = {
    "alembic", "apscheduler", "google", "grpc", "mmh3", "prometheus_client", "psycopg", "pyarrow", "pydantic",
    "pydantic_settings", "pyspark", "rich", "sqlalchemy", "structlog", "typer", "zstandard",
}  # fmt: skip


@pytest.mark.parametrize("package", LOADED)
def test_a_package_loads_no_library_of_another_part(package: str):
    code = f"import sys, {package}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert LIBRARIES & set(done.stdout.split()) == LOADED[package]


def test_the_status_of_a_site_loads_no_orm():
    code = "import sys, discovery.status, lr_server.server; print('sqlalchemy.orm' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "False"


def test_a_site_works_without_greenlet_which_only_asynchronous_applications_install(tmp_path: Path):
    code = (
        "import sys; sys.modules['greenlet'] = None\n"
        "import queues, lr_client, lr_server\n"
        "engine = queues.create_engine('sqlite:///paris.db')\n"
        "queues.initialize(engine, site_id='paris')\n"
        "client = lr_client.RoutingQueueSenderClient('policy')\n"
        "with engine.begin() as connection:\n"
        "    print(client.transmit_log_entry_message(connection, b'x', ['tokyo']).site)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("paris\n", "")


def test_the_version_is_the_installed_one():
    import lrq

    assert lrq.__version__ == version("lrq")


def test_migrations_and_protocol_are_not_packages():
    assert not (ROOT / "alembic" / "__init__.py").exists()
    assert not (ROOT / "proto" / "__init__.py").exists()


def test_the_library_alembic_is_not_shadowed_by_the_folder():
    import alembic

    assert Path(alembic.__file__).parent != ROOT / "alembic"
