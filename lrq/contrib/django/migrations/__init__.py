"""Django's migrations of the app; the module `tables` upgrades the tables for later versions of lrq."""
