"""The send log as a Spark source: `format("lrq_log")`."""
