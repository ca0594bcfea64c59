"""What is read in a log: its lines, where somebody stands in it, and whose it is."""
