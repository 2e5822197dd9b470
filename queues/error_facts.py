"""The facts of an error in an application's code: its class, its place and its traceback. Pure.

The message of an error may hold a payload. So the class, the place and the traceback are without messages. Lines of
source code, which may hold a secret, and values of variables are left out too.
"""

import sysconfig
import traceback
from collections.abc import Sequence
from pathlib import PurePath
from types import CodeType, FrameType
from typing import Final, NamedTuple

from queues.words import class_of, cleaned, describe, links

#: The longest traceback that is stored, in characters; its end is kept.
LONGEST_TRACE: Final = 8 * 1024
#: The most frames of one error.
_FRAMES: Final = 60
_JOIN: Final = "\n\nThe above exception led to the following one:\n\n"
_OWN: Final = frozenset(("discovery", "lr_client", "lr_server", "lrq", "queues", "sink"))
_STANDARD: Final = tuple({path for name, path in sysconfig.get_paths().items() if name.endswith("stdlib")})
_INSTALLED: Final = ("site-packages", "dist-packages")


class ErrorFacts(NamedTuple):
    """The class and first line of an error (`error`), its class alone, the place in the code, and the traceback.

    The place is the innermost one in the package of the listener. All but `error` are without messages.
    """

    error: str
    error_class: str = ""
    place: str = ""
    trace: str = ""


def facts_of(error: BaseException, said: str = "") -> ErrorFacts:
    """Return the facts of *error*; *said* replaces its class and first line."""
    frames = [(frame, line) for link in links(error) for frame, line in traceback.walk_tb(link.__traceback__)]
    place = _place(*_innermost(frames)) if frames else ""
    return ErrorFacts(said or describe(error), class_of(error), cleaned(place), _trace(error))


def _innermost(frames: Sequence[tuple[FrameType, int]]) -> tuple[FrameType, int]:
    """Return the last frame in the package of the listener; *frames* are not empty."""
    foreign = [each for each in frames if _package(each[0]) not in _OWN and not _is_standard(each[0])]
    # An application may itself be installed among the libraries.
    first = next((each for each in foreign if not _is_installed(each[0])), foreign[0] if foreign else frames[-1])
    return [each for each in frames if _package(each[0]) == _package(first[0])][-1]


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _is_installed(frame: FrameType) -> bool:
    return any(part in frame.f_code.co_filename for part in _INSTALLED)


def _is_standard(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(_STANDARD) and not _is_installed(frame)


def _place(frame: FrameType, line: int) -> str:
    code: CodeType = frame.f_code
    return f"{PurePath(code.co_filename).name}, line {line}, in {code.co_qualname}"


def _trace(error: BaseException) -> str:
    text = _JOIN.join(reversed([_one(link) for link in links(error)]))
    # The innermost calls come last.
    kept = text if len(text) <= LONGEST_TRACE else f"…{text[1 - LONGEST_TRACE :]}"
    return cleaned(kept, LONGEST_TRACE)


def _one(error: BaseException) -> str:
    frames: Sequence[tuple[FrameType, int]] = list(traceback.walk_tb(error.__traceback__))[-_FRAMES:]
    lines = [f'  File "{each.f_code.co_filename}", line {line}, in {each.f_code.co_qualname}' for each, line in frames]
    return "\n".join(["Traceback (most recent call last):", *lines, class_of(error)])
