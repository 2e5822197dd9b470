"""The app's entry in Django: name, label, checks and the upgrade after each `migrate`."""

from django.apps import AppConfig
from django.core import checks
from django.db.models.signals import post_migrate


class LrqConfig(AppConfig):
    """The app `lrq`."""

    name = "lrq.contrib.django"
    label = "lrq"
    verbose_name = "Log replication"
    default_auto_field = "django.db.models.AutoField"

    def ready(self) -> None:
        """Register the checks, and the upgrade of the tables after each `migrate`."""
        from lrq.contrib.django.checks import check_settings, check_tables
        from lrq.contrib.django.tables import upgrade_after_migrate

        checks.register(check_settings)
        checks.register(check_tables, checks.Tags.database)
        post_migrate.connect(upgrade_after_migrate, sender=self)
