"""The daemon that is there, as a source: what flows in, and what single views ask for."""
