"""The blocks of code of all pages, and the modules of tests that type or check them.

A module takes its blocks when it is imported: `test_page_blocks.py` imports all of them, and finds the others.
"""

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [
    str(page.relative_to(ROOT))
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md")
    for page in sorted(ROOT.glob(pattern))
    if "node_modules" not in page.parts
]
_FENCE = re.compile(r"^( *)(```+|~~~+|:::+)(.*)\n((?:.*\n)*?)\1\2$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A block of a page, without its fences and its indentation."""

    page: str
    line: int
    language: str
    text: str

    @property
    def is_code(self) -> bool:
        """False for a picture of lines and arrows, and for the lists of pages that Sphinx reads."""
        return self.language != "{toctree}" and not (self.language == "" and re.search("[─│►]", self.text))


def blocks_in(page: str, text: str) -> list[Block]:
    """Return all blocks of the text of a page, in order."""
    return [
        Block(page, text.count("\n", 0, each.start()) + 1, each[3].strip(), textwrap.dedent(each[4]))
        for each in _FENCE.finditer(text)
    ]


def blocks_of(page: str) -> list[Block]:
    """Return all blocks of a page that *page* names below the root."""
    return blocks_in(page, (ROOT / page).read_text())


def without_blocks(text: str) -> str:
    """Return the text of a page without its blocks."""
    return _FENCE.sub("", text)


#: The modules that have taken each block.
_TAKEN: dict[Block, set[str]] = {}


def takers(block: Block) -> set[str]:
    """Return the names of the modules that have taken the block so far."""
    return _TAKEN.get(block, set())


def take(module: str, page: str, *languages: str, begin: str = "") -> list[str]:
    """Return the blocks of a page in some languages that the tests of *module* type or check.

    Args:
        module: The `__name__` of the module that calls.
        page: The page below the root.
        languages: The words behind the fences; the empty one is that of a block without a language.
        begin: A pattern at the begin of each block.

    Raises:
        LookupError: The page has no such block.
    """
    chosen = [each for each in blocks_of(page) if each.language in languages and re.match(begin, each.text)]
    if not chosen:
        raise LookupError(f"{page} has no block in {languages} that begins with {begin!r}")
    for each in chosen:
        _TAKEN.setdefault(each, set()).add(module)
    return [each.text for each in chosen]
