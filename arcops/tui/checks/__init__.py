"""The doctor beside the screen: in a process of its own, and how far it has come."""
