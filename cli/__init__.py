"""The command line: a command parses, calls one client method and renders the answer."""
