"""The checkpoints room: content store, timeline, capture and the rewind engine.

Knows nothing of the daemon or the terminal: a worktree's root, a store and the time come in as values.
"""
