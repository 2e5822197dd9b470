"""The waits of commands, and their outcomes in words."""
