"""OpenOxide: checkpoints, sessions and memory under every coding agent on a machine."""

__version__ = "0.1.0"
