"""One word for one thing: public names are unique, and every reference leads to an existing page or module."""

import ast
import re
from collections import defaultdict
from importlib.util import find_spec
from pathlib import Path

import pytest

import lrq_packages

ROOT = Path(__file__).parents[2]
MODULES = sorted(
    path
    for name in lrq_packages.PACKAGES
    for path in (ROOT / name).rglob("*.py")
    if "wire/replication" not in str(path)
)
TEXTS = [*MODULES, *sorted((ROOT / "alembic").rglob("*.py")), *sorted((ROOT / "docs").rglob("*.md"))]
TEXTS += [
    *sorted((ROOT / "proto").glob("*.proto")),
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "tests").rglob("*.py")),
]
#: A name in backticks that begins with one of lrq's packages.
NAMED = re.compile(r"`((?:" + "|".join(lrq_packages.PACKAGES) + r")(?:\.(?!py`|toml`)\w+)+)(?=[`(])")
#: Settings of PostgreSQL that lrq uses.
SETTINGS = {"lrq.origin"}
#: Pages that were written before the code and are not in the project.
BEFORE_THE_CODE = re.compile(r"\bDESIGN \d|\bseeds? 00\d|\bCAPABILITIES\b|\bHOUSE \d|\bCLUSTER \d")
#: A page, and the cited headings after it: `docs/design.md`, "The tick" and "Payload once".
CITED = re.compile(
    r"(?<![\w/.])((?:docs/)?(?:[A-Z]{4,}|(?<=docs/)\w+)\.md)(?:#[\w-]+)?[`)]*((?:(?:,| and)\s+\"[A-Z][^\"]+\")*)"
)
#: A rule of ARCHITECTURE.md, cited by its number.
RULE = re.compile(r"ARCHITECTURE\.md, invariant (\d+)")


def test_no_public_class_has_the_name_of_another():
    homes: defaultdict[str, list[str]] = defaultdict(list)
    for path in MODULES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and "_pb2" not in path.name:
                homes[node.name].append(str(path.relative_to(ROOT)))
    assert {name: places for name, places in homes.items() if len(places) > 1} == {}


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_reference_leads_to_an_existing_name(path: Path):
    text = path.read_text()
    if path.name != Path(__file__).name:
        assert BEFORE_THE_CODE.findall(text) == []
    for name in NAMED.findall(text):
        assert name in SETTINGS or leads_somewhere(name), (
            f"{path.relative_to(ROOT)} speaks of `{name}`, which is not there"
        )


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_cited_page_and_heading_exists(path: Path):
    text = path.read_text()
    for page, headings in CITED.findall(text):
        found = next((each for each in (ROOT / page, path.parent / page) if each.exists()), None)
        assert found, f"{path.relative_to(ROOT)} cites {page}, which is not there"
        there = set(re.findall(r"^#+ (.+)$", found.read_text(), re.MULTILINE))
        cited = {" ".join(heading.split()) for heading in re.findall(r'"([^"]+)"', headings)}
        assert cited <= there, f"{path.relative_to(ROOT)} cites headings that {page} does not have"
    rules = re.findall(r"^(\d+)\. ", (ROOT / "ARCHITECTURE.md").read_text(), re.MULTILINE)
    assert set(RULE.findall(text)) <= set(rules)


@pytest.mark.parametrize(
    ("citation", "found"),
    [
        ('see docs/design.md, "The tick".', [("docs/design.md", ', "The tick"')]),
        ('(`docs/design.md`, "The tick" and "Lag")', [("docs/design.md", ', "The tick" and "Lag"')]),
        ("[how](docs/operating.md)", [("docs/operating.md", "")]),
        ("ARCHITECTURE.md says", [("ARCHITECTURE.md", "")]),
        ("a README.md of theirs/README.md", [("README.md", "")]),
    ],
)
def test_a_citation_is_recognised(citation: str, found: list[tuple[str, str]]):
    assert CITED.findall(citation) == found


def leads_somewhere(name: str) -> bool:
    """Return whether *name* is a module, or a name (of a name) in one."""
    parts = name.split(".")
    for size in range(len(parts), 0, -1):
        try:
            spec = find_spec(".".join(parts[:size]))
        except ModuleNotFoundError:
            continue
        if spec is None:
            continue
        found: object = __import__(".".join(parts[:size]), fromlist=["_"])
        for part in parts[size:]:
            if not hasattr(found, part) and part not in getattr(found, "__annotations__", {}):
                return False
            found = getattr(found, part, None)
        return True
    return False
