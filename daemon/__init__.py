"""The daemon: watches worktrees, owns the store, answers on one Unix socket. Only this room joins the others."""
