"""One file for each use-case that changes something or touches two rooms."""
