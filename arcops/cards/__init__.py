"""The cards as messages: one look at each, and its words; the same for the supervisor and for who looks without one."""
