"""Modules and folders import each other in one direction, also where an import stands inside a function."""

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import lrq_packages

ROOT = Path(__file__).parents[2]


def modules() -> dict[str, Path]:
    """Return the modules of our packages by their dotted names; a package's front is `<package>.__init__`."""
    paths = [path for name in lrq_packages.PACKAGES for path in (ROOT / name).rglob("*.py") if "wire" not in path.parts]
    return {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in paths}


def imported(tree: ast.AST, known: Mapping[str, Path]) -> Iterator[str]:
    """Give the modules that *tree* imports; imports for type checkers do not run, so they do not count."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names] + [node.module]
        for name in names:
            if name in known:
                yield name
            elif f"{name}.__init__" in known:
                yield f"{name}.__init__"
        yield from imported(node, known)


def imports() -> dict[str, set[str]]:
    """Return the imports of each module; a front that only passes names on counts as the modules behind the names."""
    known = modules()
    return {name: set(imported(ast.parse(path.read_text()), known)) - {name} for name, path in known.items()}


def circle(graph: Mapping[str, set[str]]) -> list[str]:
    """Return one circle of *graph*, empty where there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_module_imports_itself_through_others():
    assert circle(imports()) == []


def test_no_folder_imports_itself_through_others():
    graph: dict[str, set[str]] = {}
    for name, found in imports().items():
        own = name.rpartition(".")[0]
        others = {other.rpartition(".")[0] for other in found}
        # A folder and the folder inside it are one thing.
        graph.setdefault(own, set()).update(
            other
            for other in others
            if not (own + ".").startswith(other + ".") and not (other + ".").startswith(own + ".")
        )
    assert circle(graph) == []


def test_a_circle_is_found():
    assert sorted(set(circle({"a": {"b"}, "b": {"c"}, "c": {"a"}}))) == ["a", "b", "c"]
