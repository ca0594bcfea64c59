"""Does it fit: the arithmetic of weights, cache and state, as vLLM 0.29 does it. Files are read by others."""
