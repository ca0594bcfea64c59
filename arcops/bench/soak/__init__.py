"""Mixed clients that keep a server busy for a long time, and what is kept of it: as much for a day as for a minute."""
