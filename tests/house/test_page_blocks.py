"""No page has a block of code that no test types or checks."""

import importlib
import re
from collections.abc import Iterable

import pytest

from tests.house.page_blocks import PAGES, ROOT, Block, blocks_in, blocks_of, takers, without_blocks

_TAKES = re.compile(r"\b(?:take|lines)\(__name__, ")
#: The modules of tests that take blocks.
MODULES = [
    ".".join(file.relative_to(ROOT).with_suffix("").parts)
    for file in sorted((ROOT / "tests").rglob("*.py"))
    if _TAKES.search(file.read_text())
]


def untaken(blocks: Iterable[Block]) -> list[tuple[str, str]]:
    """Return page and first line of each block of code that no module has taken."""
    for module in MODULES:
        importlib.import_module(module)
    return [(each.page, each.text.partition("\n")[0]) for each in blocks if each.is_code and not takers(each)]


def test_each_block_of_code_is_typed_or_checked_by_a_test():
    assert untaken(block for page in PAGES for block in blocks_of(page)) == []


def test_a_new_block_is_found():
    page = """# A page

```
lrq nothing
```

1. A step:

   ~~~sh
   lrq never
   ~~~

```
 site "paris" ──► site "tokyo"
```
"""
    assert untaken(blocks_in("docs/index.md", page)) == [
        ("docs/index.md", "lrq nothing"),
        ("docs/index.md", "lrq never"),
    ]


@pytest.mark.parametrize("page", PAGES)
def test_each_block_of_a_page_stands_between_two_fences(page: str):
    rest = without_blocks((ROOT / page).read_text())
    assert re.findall(r"^ *(?:```|~~~|:::).*", rest, re.MULTILINE) == []
    assert re.findall(r"\n\n {4,}(\S.*)", rest) == [], "indentation makes a block too"
