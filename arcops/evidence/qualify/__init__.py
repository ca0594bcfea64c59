"""The gates that a profile has to pass before it may replace what works."""
