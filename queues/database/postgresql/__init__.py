"""PostgreSQL through psycopg: the dialect, pipelines, binary COPY, truncation of partitions."""
