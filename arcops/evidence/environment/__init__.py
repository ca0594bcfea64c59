"""What a runtime really is: read from the machine, compared, and told in words."""
