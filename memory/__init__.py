"""The memory room: a project's MEMORY.md and topics, and the instruction files that each agent is given besides.

``topics.Memory`` reads and writes, ``context.context`` says what an agent gets, ``toolapi.MemoryTool`` answers Anthropic's
memory tool, ``search.Search`` and ``lint.lint`` look into it. Nothing here knows of checkpoints, sessions or the daemon.
"""
