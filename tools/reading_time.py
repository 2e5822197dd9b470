"""The minutes from the front page to a reader's own first listener: `python -m tools.reading_time`.

A reader reads 200 words a minute, and types 200 characters a minute. The time of the machine is not counted.
"""

import re
from collections.abc import Iterator
from difflib import ndiff
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
WORDS_A_MINUTE: Final = 200
CHARACTERS_A_MINUTE: Final = 200
#: The pages of the path in order, with the texts at which a reader begins and ends. Without them, the page is whole.
PATH: Final = (
    ("README.md", "", ""),
    ("docs/tutorial.md", "", ""),
    ("docs/applications.md", "## A listener", "### Snapshot rows in bulk"),
)
BLOCK: Final = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
TARGET: Final = re.compile(r"\]\([^)]*\)")
COMMENT: Final = re.compile(r" *# .*")
WORD: Final = re.compile(r"[^\W_][\w.'-]*")
#: The languages of blocks that a reader saves as files.
FILES: Final = ("python", "toml", "ini")


class Effort(NamedTuple):
    """The words to read and the characters to type."""

    words: int
    characters: int

    @property
    def minutes(self) -> float:
        """The time of both, without that of the machine."""
        return self.words / WORDS_A_MINUTE + self.characters / CHARACTERS_A_MINUTE


def effort(page: str) -> Effort:
    """Count the words and characters of one page in Markdown.

    Words are prose and the shown output. Characters are commands and files, without comments and indentation. Of a file
    that comes again, only the changed lines count. A command that comes again is one key of the shell's history.
    """
    typed, shown = "", TARGET.sub("]", BLOCK.sub("", page))
    written: dict[str, str] = {}
    entered: set[str] = set()
    for language, block in BLOCK.findall(page):
        if language in FILES:
            typed += new_lines(written, block)
            continue
        for line in block.splitlines():
            if command := command_of(line, language):
                typed += "\n" if command in entered else f"{command}\n"
                entered.add(command)
            elif language == "console":
                shown += f"{line}\n"
    return Effort(len(WORD.findall(shown)), len(typed))


def command_of(line: str, language: str) -> str:
    """Return the command in a line of a block; an empty text for shown output, pictures, and targets of make."""
    if language == "console":
        return line[2:] if line.startswith("$ ") else ""
    return line if line.startswith(("lrq ", "pip ", "mkdir ", "cd ")) else ""


def new_lines(written: dict[str, str], block: str) -> str:
    """Return the lines of a file that were not there before; *written* has the files by their first lines."""
    name = block.partition("\n")[0]
    before, written[name] = written.get(name, ""), block
    changes = ndiff(before.splitlines(keepends=True), block.splitlines(keepends=True))
    return "".join(COMMENT.sub("", line[2:].lstrip(" ")) for line in changes if line.startswith("+ "))


def path() -> Iterator[tuple[str, Effort]]:
    """Yield each page of the path with its effort."""
    for name, begin, end in PATH:
        page = (ROOT / name).read_text()
        start = page.index(begin)
        yield name, effort(page[start : page.index(end, start) if end else None])


def total() -> Effort:
    """Return the effort of the whole path."""
    found = [each for _, each in path()]
    return Effort(sum(each.words for each in found), sum(each.characters for each in found))


if __name__ == "__main__":
    for name, each in (*path(), ("in all", total())):
        print(f"{name:22} {each.words:5} words {each.characters:5} characters {each.minutes:5.1f} minutes")
