"""Create, upgrade and remove lrq's tables with `manage.py migrate`."""

from typing import Any

from django.db import connections, transaction
from django.db.migrations.recorder import MigrationRecorder

import queues
from lrq.contrib.django.conf import app_settings

#: The app's label and the name of its migration that creates the tables.
CREATED_BY = ("lrq", "0001_tables")


def create(_apps: object, schema_editor: Any) -> None:  # noqa: ANN401 - Django has no types
    """Create the tables in the transaction of the migration, or upgrade those that `lrq init` has made."""
    wanted = app_settings()
    if schema_editor.connection.alias == wanted.database:
        queues.upgrade(schema_editor.connection, site_id=wanted.site_id)


def remove(_apps: object, schema_editor: Any) -> None:  # noqa: ANN401 - Django has no types
    """Remove the tables with all entries in them, in the transaction of the migration."""
    if schema_editor.connection.alias == app_settings().database:
        queues.downgrade(schema_editor.connection)


def upgrade_after_migrate(using: str, **_given: Any) -> None:  # noqa: ANN401 - Django's interface
    """Upgrade the tables to the schema of the installed lrq, unless the app's migration is not applied.

    A new version of lrq may bring another schema, and needs no migration of the project for it.
    """
    wanted = app_settings()
    if using != wanted.database or CREATED_BY not in MigrationRecorder(connections[using]).applied_migrations():
        return
    with transaction.atomic(using=using):
        queues.upgrade(connections[using], site_id=wanted.site_id)
