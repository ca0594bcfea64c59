"""Measures a server through its public API only: it knows neither the daemon nor the machine.

server        one vLLM server to be measured: asks, counts, tells what it is
drive         a stage: users that ask at the same time, what the server counted, what measuring cost
course        what the benchmarks have in common: canaries, stage after stage, canaries
content/      what prompts are made of, cut to an exact number of tokens
long_prompt, context, ladder, suite     the four benchmarks
"""
