"""Create lrq's tables, and the page of the admin site as a model without a table."""

from django.db import migrations, models

from lrq.contrib.django.tables import create, remove


class Migration(migrations.Migration):
    """The first migration."""

    initial = True
    dependencies = ()
    operations = (
        migrations.CreateModel(
            name="Replication",
            fields=[
                ("id", models.AutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
            ],
            options={
                "verbose_name": "replication status",
                "verbose_name_plural": "replication status",
                "managed": False,
                "base_manager_name": "objects",
                "default_permissions": ("view",),
            },
        ),
        migrations.RunPython(create, remove),
    )
