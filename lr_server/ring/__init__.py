"""The edge of a ring: stores, messages and clocks around the pure agreement (docs/ring.md)."""
