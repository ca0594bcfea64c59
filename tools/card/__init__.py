"""arcops on a real card: `python -m tools.card --help`."""
