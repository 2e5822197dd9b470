"""Only one module chooses by a database's name; other code calls the `Dialect` or looks it up in a registry."""

import ast
from pathlib import Path

import pytest

import lrq_packages

ROOT = Path(__file__).parents[2]
#: The module that maps names to dialects, and the one that reads URLs.
MAY_ASK = {ROOT / "queues/database/dialects.py", ROOT / "queues/database/urls.py"}
NAMES = {"postgresql", "sqlite"}
# The migrations in `alembic/versions` are excluded, because they keep their first form and import nothing of lrq.
MODULES = [path for name in lrq_packages.PACKAGES for path in sorted((ROOT / name).rglob("*.py"))]
MODULES += [ROOT / "alembic" / "env.py"]


def questions(source: str) -> list[int]:
    """Return the lines that ask for the name of a dialect, compare with one, or keep a table by it."""
    return sorted({node.lineno for node in ast.walk(ast.parse(source)) if isinstance(node, ast.expr) and _asks(node)})


def _asks(node: ast.expr) -> bool:
    match node:
        case ast.Attribute(attr="name", value=ast.Attribute(attr="dialect") | ast.Name(id="dialect")):
            return True
        case ast.Compare():
            return any(_is_name(part) for part in ast.walk(node))
        case ast.Dict():
            return any(_is_name(key) for key in node.keys)
    return False


def _is_name(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and node.value in NAMES


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_asks_for_the_name_of_its_database(path: Path):
    lines = [] if path in MAY_ASK else questions(path.read_text())
    assert lines == [], f"{path.relative_to(ROOT)} asks in {lines}: give `Dialect` an operation, and call it"


@pytest.mark.parametrize(
    "source",
    [
        'if engine.dialect.name == "sqlite": pass',
        "choose(connection.dialect.name)",
        'x = a if url.get_backend_name() == "postgresql" else b',
        'x = backend in ("sqlite", "postgresql")',
        'store = {"sqlite": 1, "postgresql": 2}[name]',
    ],
)
def test_the_search_finds_a_question(source: str):
    assert questions(source) == [1]


def test_the_search_leaves_other_names_alone():
    assert questions('cut.name == "x"; use(engine, dialect.driver); print("sqlite")') == []
