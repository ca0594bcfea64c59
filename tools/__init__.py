"""What development and the demo need; no part of arcops itself."""
