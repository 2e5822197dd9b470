"""The command line: `lrq --help`."""
