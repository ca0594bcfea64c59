"""Whether the screen tells the truth: a known load through real vLLM, timed at the client, beside what was shown."""
