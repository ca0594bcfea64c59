"""The gates that a profile has to pass before it may replace what works.

run      the whole course: start it, have it asked, keep the record, bring back what ran before
wanted   what a person, and the profile, want asked
before   what ran before, and how it comes back
daemon   what only the daemon knows: its variables, what it runs by whose order, and the environment of that
hold     everything asked of one server that serves, and beside the last qualified record
ask      the questions themselves
seen     what came of them: facts
gates    from facts to verdicts: pure
keep     verdicts and facts as one record
"""
