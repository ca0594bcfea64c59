"""What is known of a card: its measures, who holds its memory, whether it is clean. machine/gpu reads it."""
