"""Producers: send into the log of a site without a database of their own."""
