"""The single writer: observe, decide, act; and the control API beside it."""
