"""Each module is one command, its options and its action. Slow imports happen in the call, so that help is fast."""
