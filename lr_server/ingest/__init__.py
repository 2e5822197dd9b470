"""Ingest: the service that stores the messages of producers without a database."""
