"""Snapshots by Spark against a bare COPY and against `pg_dump | psql`: `python -m benchmarks.snapshot --help`."""
