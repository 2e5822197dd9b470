"""The send log on PostgreSQL, where a tick is the difference of two database snapshots."""
