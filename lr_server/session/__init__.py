"""The runner of one session, which carries out the effects of the machine."""
