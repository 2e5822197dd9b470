def check_state(members, released):
    pass
def check_step(before, event, after, effects):
    pass
