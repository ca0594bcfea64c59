"""A recording as a source, and the screen that plays it."""
