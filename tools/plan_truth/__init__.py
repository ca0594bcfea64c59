"""Does the plan count as vLLM does? Real launches, and what they report, beside what was planned."""
