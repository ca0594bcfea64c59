"""What a measurement shows: runs and their figures, identity, comparability, environments, gates. Pure, like all of core.

work          what is asked of a server
run           what came of it, as it was timed: the raw facts of a run, and of its record
setting       where it was measured: configuration, environment, cards
"""
