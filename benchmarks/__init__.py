"""What lrq does in a second, measured against what the database can do itself."""
