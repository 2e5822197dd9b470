"""The process of a command: its signals, its standard streams and its service manager."""
