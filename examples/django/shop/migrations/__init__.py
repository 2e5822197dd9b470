"""Django's migrations of the shop."""
