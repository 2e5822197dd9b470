"""Transmit on the connections of many drivers: one module for each family, chosen by the kind of the connection."""
