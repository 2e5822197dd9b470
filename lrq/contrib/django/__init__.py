"""A Django app: `INSTALLED_APPS = ["lrq.contrib.django"]`; docs/frameworks.md explains the settings.

Example:
    >>> from lrq.contrib.django import transmit
    >>> with transaction.atomic():
    ...     order.save()
    ...     transmit("orders", order.as_json().encode(), ["tokyo"])
"""

import lrq.contrib.django.libraries  # noqa: F401 - fails if Django is not installed
from lrq.contrib.django.engines import engine
from lrq.contrib.django.sender import transmit

__all__ = ["engine", "transmit"]
