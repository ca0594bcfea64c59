"""How a launch's environment stands to those in which its profile has qualified, and to the one before; and where it is
kept.

child   the question to a process of its own, and its answer: small, for a daemon to load
judge   the process's work
kept    the environments that launches ran in, a file for each
"""
