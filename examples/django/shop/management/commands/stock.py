"""`manage.py stock`."""

from django.core.management.base import BaseCommand

from shop.models import Stock


class Command(BaseCommand):
    """Prints the stock."""

    help = "Print the stock of the head office."

    def handle(self, **_options):
        """Print one line for each item."""
        for stock in Stock.objects.order_by("item"):
            self.stdout.write(f"{stock.item}: {stock.quantity}")
