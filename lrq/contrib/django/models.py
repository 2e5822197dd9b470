"""A model without a table or rows: Django's admin site and permissions need one for the page of the status."""

from typing import Any

from django.db import models


class NoRows(models.Manager):
    """A manager that asks no database, so that `dumpdata` passes over the model."""

    def get_queryset(self) -> Any:  # noqa: ANN401 - Django has no types
        """Return no rows."""
        return super().get_queryset().none()


class Replication(models.Model):
    """The status of the site, see the app's `admin` module; users need the permission to view it."""

    objects = NoRows()

    class Meta:
        """Options of Django."""

        managed = False
        base_manager_name = "objects"
        default_permissions = ("view",)
        verbose_name = verbose_name_plural = "replication status"
