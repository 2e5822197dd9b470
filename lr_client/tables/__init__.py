"""Copies of followed tables: the listener that applies the changes of rows to tables of the same form."""
