"""The tables: orders at a branch; stock and its changes at the head office."""

from django.db import models


class Order(models.Model):
    """An order that a branch has taken."""

    item = models.CharField(max_length=40)
    quantity = models.PositiveIntegerField()
    placed_at = models.DateTimeField(auto_now_add=True)


class Stock(models.Model):
    """The quantity of an item, as the head office counts it."""

    item = models.CharField(max_length=40, primary_key=True)
    quantity = models.IntegerField(default=0)


class StockChange(models.Model):
    """One order of a branch that the head office has applied."""

    branch = models.CharField(max_length=64)
    order = models.BigIntegerField()
    stock = models.ForeignKey(Stock, on_delete=models.PROTECT)
    quantity = models.PositiveIntegerField()
    placed_at = models.DateTimeField()
