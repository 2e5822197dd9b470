"""Receive queues as a Spark source: `format("lrq_receive")`."""
