"""The send log on SQLite, where the visibility of a tick is the highest id."""
