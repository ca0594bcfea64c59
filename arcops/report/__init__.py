"""The archive that `arcops report` writes: what a maintainer would ask for, without its secrets."""
