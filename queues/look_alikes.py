"""Find site ids that people take for one another: by case, by script, or by the sign between two words. Pure."""

import unicodedata
from collections.abc import Iterable
from itertools import combinations
from typing import Final

#: Letters of other scripts that look like Latin ones in most fonts, after `casefold`.
_HOMOGLYPHS: Final = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u03bf\u03b1\u03bd\u03c1\u03b9\u03ba\u0131",
    "aeopcyxijsoavpiki",
)
#: Signs, digits and letters that are mistaken for one another.
_ALIKE: Final = str.maketrans("-.0l1", "__oii")


def look_alikes(names: Iterable[str]) -> list[tuple[str, str]]:
    """Return the pairs of different *names* that look alike, each pair and the list in alphabetical order."""
    same: dict[str, list[str]] = {}
    for name in sorted(set(names)):
        same.setdefault(_skeleton(name), []).append(name)
    return [(first, second) for group in same.values() for first, second in combinations(group, 2)]


def warning(pair: tuple[str, str]) -> str:
    """Return the sentence about one pair."""
    first, second = pair
    return f"the site ids {first!r} and {second!r} look alike: rename one, since entries for one never reach the other"


def _skeleton(name: str) -> str:
    """Return a text that is equal for names that look alike."""
    plain = unicodedata.normalize("NFKD", name).casefold().translate(_HOMOGLYPHS).translate(_ALIKE)
    return "".join(character for character in plain if not unicodedata.combining(character))
