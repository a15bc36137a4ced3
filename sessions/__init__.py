"""The sessions room: the archive of every agent's conversations. Empty until its own issue."""
