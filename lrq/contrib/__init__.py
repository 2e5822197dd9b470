"""Integrations with frameworks; each imports its framework, which the application installs."""
