"""The statements of the pages are true: paths, targets, terms and the diagram."""

import re
from pathlib import Path

import pytest

import lrq
import lrq_packages
from tests.house.page_blocks import take
from tests.house.prose import offences
from tools.diagram import with_diagram

ROOT = Path(__file__).parents[2]
take(__name__, "docs/sessions.md", "mermaid")
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").rglob("*.md"))]
#: The pages in plain English; pages with measurements or changes have their own rules.
PLAIN = [
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "GLOSSARY.md",
    "docs/applications.md",
    "docs/attached-sites.md",
    "docs/code.md",
    "docs/compatibility.md",
    "docs/deploy.md",
    "docs/design.md",
    "docs/faults.md",
    "docs/links.md",
    "docs/peers.md",
    "docs/ring.md",
    "docs/servers.md",
    "docs/sessions.md",
    "docs/shards.md",
    "docs/tls.md",
]

#: A path of the project, between backticks or in a command.
PATH = re.compile(
    r"(?<![\w./-])((?:(?:"
    + "|".join(lrq_packages.PACKAGES)
    + r"|alembic|deploy|docs|proto|tests|tools|benchmarks|\.ci)/)(?!_)"
    r"(?:\w[\w.-]*/)*\w[\w-]*(?:\.\w+)?)(?=[`\s):,;*])"
)
#: The target of a link or picture within the project.
LINK = re.compile(r"\]\((?!https?://)([^)\s]+)\)")
TERMS = {
    "acknowledgement", "active member", "apply", "attached site", "base", "batch", "bell", "block", "bounds", "branch",
    "client", "copy", "cut",
    "destination", "lane", "barrier", "destination set", "effect", "end of stream", "entry", "envelope", "fencing",
    "followed table", "generation", "grantee", "header", "headers of an entry", "incarnation", "item", "lease", "link",
    "listener", "log-entry sync", "negotiation", "park", "part", "partition", "partitioner", "peer", "position",
    "producer", "promise of a member", "provider", "range", "rank", "receive state", "registry", "released tick",
    "replace", "replay", "replicas", "rest", "retention", "ring", "room", "routing queue", "seal", "segment",
    "send log", "sequencer", "session", "shard", "share of a ring", "sink", "site", "slot", "snapshot sync", "source",
    "stream tag", "subscriber", "tick", "token of a ring", "topology", "transmit", "trim", "visibility", "wakeup",
    "window", "worker",
}  # fmt: skip


def text_of(page: str) -> str:
    return (ROOT / page).read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_path_of_a_page_exists(page: Path):
    missing = [path for path in PATH.findall(page.read_text()) if not (ROOT / path).exists()]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_to_a_file_and_a_heading(page: Path):
    wrong = [target for target in LINK.findall(without_code(page.read_text())) if not leads(page, target)]
    assert wrong == []


def test_every_page_has_a_row_in_the_tables_of_all_pages():
    index = (ROOT / "docs" / "index.md").read_text()
    tables = re.sub(r"^```{toctree}$.*?^```$", "", index, flags=re.MULTILINE | re.DOTALL)
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")} - {"index.md"}
    assert pages - set(re.findall(r"\]\(([\w/-]+\.md)", tables)) == set()


def test_every_picture_is_shown_on_a_page():
    shown = {(page.parent / target).resolve() for page in PAGES for target in LINK.findall(page.read_text())}
    assert set((ROOT / "docs" / "images").iterdir()) - shown == set()


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def leads(page: Path, target: str) -> bool:
    """Return whether GitHub finds the file of *target*, and its heading if there is one."""
    name, _, heading = target.partition("#")
    there = page.parent / name if name else page
    if not there.exists() or not heading:
        return there.exists()
    heads = re.findall(r"^#+ (.+)$", without_code(there.read_text()), re.MULTILINE)
    return heading in {re.sub(r"[^\w -]", "", head).strip().lower().replace(" ", "-") for head in heads}


@pytest.mark.parametrize(
    ("target", "found"),
    [
        ("operating.md", True),
        ("operating.md#triggers-postgresql", True),
        ("#rights-of-roles-postgresql", True),
        ("operating.md#nothing", False),
        ("nothing.md", False),
    ],
)
def test_a_link_that_leads_nowhere_is_found(target: str, found: bool):
    assert leads(ROOT / "docs" / "database.md", target) is found


def test_every_file_of_a_hard_thing_exists():
    rows = re.findall(r"^\| [^|]+ \| (`[^|]+) \|$", text_of("docs/code.md"), re.MULTILINE)
    places = [place for row in rows for place in row.split(",")]
    named = [match[1] for place in places if (match := re.match(r" ?`([^`]+)`", place))]
    assert len(rows) >= 100
    assert len(named) == len(places)
    assert [name for name in named if not (ROOT / name).is_file()] == []


def test_the_table_of_layers_names_the_packages():
    layers = text_of("ARCHITECTURE.md").split("## Layers")[1].split("## Invariants")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", layers, re.MULTILINE)) == set(lrq_packages.PACKAGES)


def test_the_diagram_equals_the_machine_s_own():
    page = text_of("docs/sessions.md")
    assert with_diagram(page) == page, "the machine has changed: run `make diagram`"
    assert "Idle --> Negotiating: started" in page
    assert with_diagram(page.replace("Idle --> Negotiating", "Idle --> Live")) == page


def test_the_glossary_explains_each_published_term_once_in_one_sentence():
    rows = re.findall(r"^\| ([a-z][^|]*) \| ([^|]+) \| [^|]+ \|$", text_of("GLOSSARY.md"), re.MULTILINE)
    terms = [term for term, _ in rows if term != "term"]
    assert sorted(terms) == sorted(TERMS)
    assert [meaning for term, meaning in rows if term != "term" and not re.fullmatch(r"[A-Z][^.]*\.", meaning)] == []


def test_every_target_of_make_on_a_page_exists():
    targets = set(re.findall(r"^([a-z-]+):.*## ", text_of("Makefile"), re.MULTILINE))
    named = {
        target for page in PAGES for target in re.findall(r"(?:^|`)make ([a-z-]+)", page.read_text(), re.MULTILINE)
    }
    assert named - targets == set()
    assert named >= {"demo", "test", "unit", "check", "faults", "proto", "diagram"}


@pytest.mark.parametrize("page", PLAIN)
def test_a_page_is_plain_english(page: str):
    assert list(offences(Path(page), text_of(page))) == []


def test_the_changelog_has_a_section_for_this_version_and_for_each_earlier_one():
    sections = re.findall(r"^## \[([^\]]+)\]", text_of("CHANGELOG.md"), re.MULTILINE)
    newest = "Unreleased" if ".dev" in lrq.__version__ else lrq.__version__
    assert sections[0] == newest
    versions = [tuple(map(int, section.split("."))) for section in sections if section != "Unreleased"]
    assert versions == sorted(set(versions), reverse=True)
    assert versions[-1] == (0, 1, 0)
