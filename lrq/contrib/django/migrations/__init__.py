"""Django's migrations of the app; `lrq.contrib.django.tables` upgrades the tables for later versions of lrq."""
