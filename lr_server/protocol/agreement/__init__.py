"""The agreement of a ring of stores: the leader of each token, and the ticks that a leader may release. Pure.

One machine for each member of a token: `machine.advance`. See docs/ring.md.
"""
