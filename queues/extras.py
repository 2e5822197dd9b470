"""Tell in one sentence that optional libraries are not installed. Pure, but for the look at `sys.path`."""

from collections.abc import Sequence
from importlib.util import find_spec

from queues.errors import MissingDependencyError


def require_libraries(extra: str, purpose: str, libraries: Sequence[str]) -> None:
    """Raise `MissingDependencyError`, which names *extra*, unless all *libraries* are installed; imports none."""
    missing = [library for library in libraries if find_spec(library) is None]
    if missing:
        names = ", ".join(missing)
        raise MissingDependencyError(f"{purpose} needs {names}: run `pip install 'lrq[{extra}]'`")


def require_package(purpose: str, library: str, requirement: str) -> None:
    """Raise `MissingDependencyError`, which names *requirement*, unless *library* of no extra is installed."""
    if find_spec(library) is None:
        raise MissingDependencyError(f"{purpose} needs {library}: run `pip install '{requirement}'`")
