"""Write tables of Markdown. Pure."""

from collections.abc import Iterable, Sequence


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table with the *heads*; line breaks, bars and angle brackets within cells are made harmless."""
    lines = [heads, ["---"] * len(heads), *([_cell(text) for text in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cell(text: str) -> str:
    plain_and_code = " ".join(text.split()).replace("|", "\\|").split("`")
    plain_and_code[::2] = [plain.replace("<", "&lt;") for plain in plain_and_code[::2]]
    return "`".join(plain_and_code)
