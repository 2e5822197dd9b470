"""Lines of `lrq` from pages, typed in this process in one folder."""

import shlex

from tests.house.page_blocks import take
from tests.lrq.cli.command import Command, Done


def lines(module: str, page: str, begin: str) -> list[str]:
    """Return the lines of the one block without a language that begins so; *module* types them."""
    (block,) = take(module, page, "", begin=begin)
    return block.splitlines()


def words_of(line: str, places: dict[str, str] | None = None) -> list[str]:
    """Return the words after `lrq` without the comment, with other places in place of the page's."""
    for there, here in (places or {}).items():
        assert there in line, (there, line)
        line = line.replace(there, here)
    program, *words = shlex.split(line, comments=True)
    assert program == "lrq"
    return words


class TypeLine:
    """Types a line; the answer has the exit code and the output."""

    def __init__(self, command: Command) -> None:
        self._command = command

    def __call__(self, line: str, places: dict[str, str] | None = None) -> Done:
        return self._command(*words_of(line, places))
