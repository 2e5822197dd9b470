"""Snapshots that a Spark job builds."""
