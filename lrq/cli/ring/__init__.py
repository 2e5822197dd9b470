"""Rings for `lrq ring`: founded, shown, enlarged and repaired."""
