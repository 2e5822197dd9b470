"""Recognise sessions of SQLAlchemy's ORM without an import of the ORM, which would take a tenth of a command's time."""

import sys
from typing import TYPE_CHECKING, Any, TypeGuard

if TYPE_CHECKING:
    from sqlalchemy.orm import Session, scoped_session


def is_session(given: object) -> "TypeGuard[Session | scoped_session[Any]]":
    """Tell whether *given* is a session, or a registry of sessions. Without the ORM there is none."""
    orm = sys.modules.get("sqlalchemy.orm")
    return orm is not None and isinstance(given, orm.Session | orm.scoped_session)
