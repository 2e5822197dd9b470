"""Subscriptions: poll the registry and deliver receive queues to a listener."""
