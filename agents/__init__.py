"""The agents room: one module for each coding agent. Empty until its own issue."""
