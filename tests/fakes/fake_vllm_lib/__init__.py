"""The parts of the fake vLLM: standard library only, so that `python -I` starts it in a few tens of milliseconds."""
