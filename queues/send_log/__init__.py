"""The send log of a source: applications write entries; the server closes them in ticks and reads them."""
