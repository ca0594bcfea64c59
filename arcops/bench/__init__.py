"""Measures a server through its public API only: it knows neither the daemon nor the machine.

server        one vLLM server to be measured: asks, counts, tells what it is
drive         a stage: users that ask at the same time, what the server counted, what measuring cost
"""
