"""What the packages show is what they say they show."""

import ast
import importlib
from pathlib import Path

import pytest

import lrq

ROOT = Path(__file__).parents[2]


def imported_names(package: str) -> list[str]:
    """Return the public names that the package's `__init__` imports from its modules."""
    tree = ast.parse((ROOT / package / "__init__.py").read_text())
    imports = (node for node in tree.body if isinstance(node, ast.ImportFrom))
    found = [alias.asname or alias.name for node in imports for alias in node.names]
    return sorted(name for name in found if not name.startswith("_"))


@pytest.mark.parametrize("package", lrq.PACKAGES)
def test_all_is_sorted_and_complete(package: str):
    module = importlib.import_module(package)
    assert getattr(module, "__all__", []) == imported_names(package)


@pytest.mark.parametrize("package", lrq.PACKAGES)
def test_every_package_is_typed_and_says_what_it_is_for(package: str):
    assert (ROOT / package / "py.typed").exists()
    assert importlib.import_module(package).__doc__


def test_migrations_and_protocol_are_no_packages():
    assert not (ROOT / "alembic" / "__init__.py").exists()
    assert not (ROOT / "proto" / "__init__.py").exists()


def test_the_library_alembic_is_not_shadowed_by_the_folder():
    import alembic

    assert Path(alembic.__file__).parent != ROOT / "alembic"
