"""Make a partitioner from its text: those of lrq, and those that packages add by entry points."""

import re
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from queues.errors import UsageError
from queues.partitioners import BUILT_IN, Partitioner, PartitionerFactory
from queues.words import in_words

#: The entry point group of third parties; each entry point is a function or class of the words between parentheses.
GROUP: Final = "lrq.partitioners"
_FORM: Final = re.compile(r"([A-Za-z][A-Za-z0-9_.-]*)(?:\((.*)\))?", re.DOTALL)


@lru_cache(maxsize=64)
def partitioner_of(text: str) -> Partitioner:
    """Return the partitioner *text* names, as `hash` or `range(g,n)`.

    Raises `UsageError` for an unknown name, and for words that the partitioner does not take. The same holds for an
    object that is no `Partitioner`.
    """
    form = _FORM.fullmatch(text) if isinstance(text, str) else None
    if form is None:
        raise UsageError(f"partitioner is {text!r}: write a name as hash, or a name with words as range(g,n)")
    name, words = form[1], form[2]
    factory = BUILT_IN.get(name) or _loaded(name)
    try:
        made = factory(*(words.split(",") if words else ()))
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(f"the partitioner {text} cannot be made: {in_words(error)}") from error
    if not isinstance(made, Partitioner):
        raise UsageError(f"the partitioner {name} has no methods slots(shards) and slot(key, slots)")
    return made


def _loaded(name: str) -> PartitionerFactory:
    found = [point for point in _points() if point.name == name]
    if not found:
        known = ", ".join(sorted({*BUILT_IN, *(point.name for point in _points())}))
        raise UsageError(f"there is no partitioner {name}: choose one of {known}, or install the package that has it")
    if len({point.value for point in found}) > 1:
        # Two processes might choose different ones, and a key would have two slots.
        homes = ", ".join(sorted(point.dist.name if point.dist else point.value for point in found))
        raise UsageError(f"the partitioner {name} is in several packages ({homes}): remove all but one")
    try:
        factory: PartitionerFactory = found[0].load()
    except Exception as error:
        raise UsageError(f"the partitioner {name} of {found[0].value} cannot be loaded: {in_words(error)}") from error
    return factory


def _points() -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=GROUP))
