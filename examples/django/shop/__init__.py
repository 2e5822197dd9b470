"""A shop with branches, which sell, and a head office, which counts the stock."""
