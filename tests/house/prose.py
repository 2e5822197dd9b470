"""Finds sentences that a newcomer reads twice: in docstrings, comments, test names, errors, help texts and pages."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

#: The longest sentence, in words; a piece of code between backticks is one word.
LONGEST: Final = 20

#: Words in the place of a noun of the glossary.
_NAMELESS: Final = re.compile(
    r"\b(who|whom|whoever|somebody|someone|nobody|no one|anybody|anyone|everybody|everyone|whatever|whichever|what)\b",
    re.IGNORECASE,
)
#: A pronoun at the beginning of a sentence: its noun stands in another sentence.
_DANGLING: Final = re.compile(r"(it|its|they|their|them|these|those|this|that)\b(?! \w+ing\b)", re.IGNORECASE)
_CODE: Final = re.compile(r"``[^`]+``|`[^`]+`|\*[\w.]+\*|\"[^\"]*\"|https?://\S+")
_END: Final = re.compile(r"(?<=[.!?:;])\s+(?=[A-Z0-9*`\"'(])|\n\s*\n|\n\s*[-*] ")
_ITEM: Final = re.compile(r"\s*([-*]|\d+\.) ")
_MARKER: Final = re.compile(r"(noqa|type: ignore|pragma|pyright|fmt:|ruff:)\b.*")


class Offence(NamedTuple):
    """One sentence to rewrite, and the rule that it breaks."""

    path: str
    line: int
    rule: str
    text: str


def offences(path: Path, source: str) -> Iterator[Offence]:
    """Find every sentence of *source* that breaks a rule."""
    texts = _pages(source) if path.suffix == ".md" else _texts(source)
    for line, text in texts:
        for sentence in _sentences(text):
            for rule in _broken(sentence):
                yield Offence(str(path), line, rule, sentence)
    if path.name.startswith("test_") and path.suffix == ".py":
        for line, name in _test_names(source):
            words = name.replace("_", " ")
            for rule in _broken(words.removeprefix("test "), is_name=True):
                yield Offence(str(path), line, rule, name)


def _broken(sentence: str, *, is_name: bool = False) -> Iterator[str]:
    plain = _CODE.sub("CODE", sentence)
    if found := _NAMELESS.search(plain):
        yield f"says {found[0].lower()!r} instead of a noun"
    if not is_name and (found := _DANGLING.match(plain)):
        yield f"begins with {found[0]!r}: name the thing"
    count = len([word for word in plain.split() if re.search(r"\w", word)])
    if count > LONGEST:
        yield f"has {count} words"


def _sentences(text: str) -> Iterator[str]:
    for sentence in _END.split(text):
        if words := " ".join(sentence.split()):
            yield words


@lru_cache(maxsize=1)
def _nodes(source: str) -> list[ast.AST]:
    return list(ast.walk(ast.parse(source)))


def _texts(source: str) -> list[tuple[int, str]]:
    return [*_docstrings(source), *_comments(source), *_errors(source)]


def _errors(source: str) -> Iterator[tuple[int, str]]:
    """Yield the text of each raised error and of each help text; a colon ends a sentence there."""
    for node in _nodes(source):
        if isinstance(node, ast.Call):
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            texts = [word.value for word in node.keywords if word.arg in ("help", "epilog")]
            texts += node.args[:1] if called.endswith("Error") else []
            for text in map(_literal, texts):
                yield node.lineno, text.replace(": ", ".\n\n")


def _literal(node: ast.expr) -> str:
    """Return a string with one word in place of each value, and an empty string for other expressions."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(_literal(value) if isinstance(value, ast.Constant) else "VALUE" for value in values)
    return ""


def _pages(source: str) -> Iterator[tuple[int, str]]:
    """Yield each paragraph, item and table cell of a page; code and drawings are omitted."""
    is_code = False
    lines: list[str] = []
    first = 0
    for number, line in enumerate([*source.splitlines(), ""], start=1):
        is_fence = line.startswith("```")
        is_code ^= is_fence
        if is_fence or is_code or not line.strip() or line.startswith(("|", "#")) or _ITEM.match(line):
            if lines:
                yield first, "\n".join(lines)
            lines = []
        if line.startswith("|"):
            yield from ((number, cell.strip()) for cell in line.split("|") if cell.strip(" -:"))
        elif not is_code and not is_fence and line.strip() and not line.startswith("#"):
            first = first if lines else number
            item = _ITEM.match(line)
            lines.append(line[item.end() :] if item else line)


def _docstrings(source: str) -> Iterator[tuple[int, str]]:
    for node in _nodes(source):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text is not None:
                yield node.body[0].lineno, _prose(text)


def _prose(docstring: str) -> str:
    """Omit examples and drawings: indented blocks, prompts and tables."""
    kept: list[str] = []
    for line in docstring.splitlines():
        is_example = line.startswith(("    ", ">>>", "|", "+-")) and not line.strip().endswith(".")
        kept.append("" if is_example else line)
    return "\n".join(kept)


def _comments(source: str) -> Iterator[tuple[int, str]]:
    """Yield each run of comment lines as one text."""
    lines: list[str] = []
    first = last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        text = _MARKER.sub("", token.string.lstrip("#:! ")).strip()
        alone = token.line.lstrip().startswith("#")
        if lines and alone and token.start[0] == last + 1:
            lines.append(text)
        else:
            if lines:
                yield first, "\n".join(lines)
            lines, first = [text], token.start[0]
        last = token.start[0] if alone else -1
    if lines:
        yield first, "\n".join(lines)


def _test_names(source: str) -> Iterator[tuple[int, str]]:
    for node in _nodes(source):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node.lineno, node.name
