"""The log of a token of a ring: an ordinary send log on SQLite, alike at every member (docs/ring.md)."""
