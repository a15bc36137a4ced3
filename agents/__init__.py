"""The agents room: what is particular to each coding agent. So far what its hooks tell."""
