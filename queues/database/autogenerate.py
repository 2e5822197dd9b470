"""Keep lrq's tables out of the migrations that an application's Alembic generates. Pure."""

from collections.abc import Mapping
from typing import Final

#: All tables, views, functions and sequences of lrq begin with this.
PREFIX: Final = "lrq_"


def include_name(name: str | None, type_: str, parent_names: Mapping[str, str | None]) -> bool:  # noqa: ARG001 - Alembic's
    """Return False for a table of lrq, in any schema; True for every other name, so that Alembic compares it.

    For `context.configure(include_name=queues.include_name)` in an application's `env.py`. An application with a rule
    of its own combines both::

        include_name=lambda *names: queues.include_name(*names) and mine(*names)
    """
    return type_ != "table" or name is None or not name.startswith(PREFIX)
