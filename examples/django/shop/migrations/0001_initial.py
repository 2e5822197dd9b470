"""Orders at a branch; stock and its changes at the head office."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    """The first migration."""

    initial = True

    dependencies = ()

    operations = (
        migrations.CreateModel(
            name="Order",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("item", models.CharField(max_length=40)),
                ("quantity", models.PositiveIntegerField()),
                ("placed_at", models.DateTimeField(auto_now_add=True)),
            ],
        ),
        migrations.CreateModel(
            name="Stock",
            fields=[
                ("item", models.CharField(max_length=40, primary_key=True, serialize=False)),
                ("quantity", models.IntegerField(default=0)),
            ],
        ),
        migrations.CreateModel(
            name="StockChange",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("branch", models.CharField(max_length=64)),
                ("order", models.BigIntegerField()),
                ("quantity", models.PositiveIntegerField()),
                ("placed_at", models.DateTimeField()),
                ("stock", models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, to="shop.stock")),
            ],
        ),
    )
