"""The memory room: MEMORY.md, topic files and the instruction hierarchy. Empty until its own issue."""
