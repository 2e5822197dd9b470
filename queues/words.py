"""Texts of others, made fit to be stored and shown: errors, reasons and progress. Pure."""

import re
import traceback
from collections.abc import Iterator
from typing import Final

from queues.errors import LrqError, first_line
from queues.thread_lack import NO_THREAD, is_lack

#: The longest text of others that is stored or shown, in characters.
LONGEST: Final = 500
#: The most frames of one error in a traceback, and the most errors of one chain.
_FRAMES: Final = 40
_LINKS: Final = 8
# PostgreSQL stores no NUL, UTF-8 has no surrogates, and other control characters could steer a terminal.
_UNFIT: Final = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def cleaned(text: str, longest: int = LONGEST) -> str:
    """Return *text* for every database, log and frame: at most *longest* characters, no control characters."""
    kept = text if len(text) <= longest else f"{text[: longest - 1]}…"
    return _UNFIT.sub("\N{REPLACEMENT CHARACTER}", kept)


def describe(error: BaseException) -> str:
    """Return the class and the first line of *error*, without the payloads that SQLAlchemy adds to messages.

    A lack of threads is told with its cure.
    """
    if is_lack(error):
        return NO_THREAD
    orig = getattr(error, "orig", None)
    cause = orig if isinstance(orig, BaseException) else error
    said = _first_line(cause)
    return cleaned(f"{type(cause).__name__}: {said}" if said else type(cause).__name__)


def class_of(error: BaseException) -> str:
    """Return the class of *error*; of an error that SQLAlchemy wraps, the class of the driver."""
    orig = getattr(error, "orig", None)
    return cleaned(type(orig if isinstance(orig, BaseException) else error).__name__)


def in_words(error: BaseException) -> str:
    """Return the sentence of an lrq error, or `describe` another error."""
    return cleaned(first_line(error)) if isinstance(error, LrqError) else describe(error)


def traced(error: BaseException) -> str:
    """Return the traceback of *error* and of its causes, with `describe` in the place of each whole message."""
    parts = [_trace(link) for link in links(error)]
    return "\n\n".join(reversed(parts))


def place_of(error: BaseException) -> tuple[object, ...]:
    """Return the classes and lines of code in the traceback of *error*; equal for repeated failures of one place."""
    # A set, because the traceback of one object grows each time that object is raised again.
    return tuple((type(link).__qualname__, frozenset(_lines(link))) for link in links(error))


def links(error: BaseException) -> Iterator[BaseException]:
    """Yield *error* and its causes, as Python shows them."""
    link: BaseException | None = error
    for _ in range(_LINKS):
        if link is None:
            return
        yield link
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)


def is_unicode(text: str) -> bool:
    """Return whether Python could read the bytes of *text*, an argument or a path, in the encoding of the locale."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _first_line(error: BaseException) -> str:
    try:
        return first_line(error)
    except Exception as problem:  # noqa: BLE001 - the error is of an application, and so is its `__str__`
        return f"(its text cannot be read: {type(problem).__name__})"


def _lines(error: BaseException) -> Iterator[tuple[str, int]]:
    for frame, line in traceback.walk_tb(error.__traceback__):
        yield frame.f_code.co_filename, line


def _trace(error: BaseException) -> str:
    frames = "".join(traceback.format_tb(error.__traceback__, limit=-_FRAMES))
    return f"Traceback (most recent call last):\n{frames}{describe(error)}"
