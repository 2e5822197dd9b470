"""One command a module: its options, and what it does. Whatever takes time to import is imported by the call."""
