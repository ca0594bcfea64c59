"""arcops as a service of systemd: the unit files, and what is asked of the managers. Nothing here talks to people."""
