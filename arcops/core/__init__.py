"""What was asked, what is true, and what to do next. Pure: no I/O, no clock, no randomness, no logging."""
