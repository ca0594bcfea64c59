"""What a measurement shows: runs and their figures, identity, comparability, environments, gates. All of it pure.

work          what is asked of a server
run           what came of it, as it was timed: the raw facts of a run, and of its record
setting       where it was measured: configuration, environment, cards
identity      are these the oracle's tokens
judge         what a record is worth, question by question; caching: is cold cold, and cached cached
rungs         which rungs are exact, by the two-run rule
comparable    in what two runs cannot be compared, and what is no oracle
possible      can this record be true
measured      a record, as all of these see it
"""
