"""`manage.py order ITEM QUANTITY`."""

from django.core.management.base import BaseCommand, CommandError

from shop import orders


class Command(BaseCommand):
    """Takes one order."""

    help = "Take one order at this branch."

    def add_arguments(self, parser):
        """Add the arguments."""
        parser.add_argument("item")
        parser.add_argument("quantity", type=int)

    def handle(self, item, quantity, **_options):
        """Place the order."""
        try:
            order = orders.place(item, quantity)
        except ValueError as error:
            raise CommandError(error) from error
        self.stdout.write(f"order {order.pk}: {quantity} {item}")
