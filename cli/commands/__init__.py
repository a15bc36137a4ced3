"""The commands' bodies: plain functions that parse no text, call one client method and render its answer.

Both parsers call them: `hot.py` by its table, `app.py` by their signatures. They name `typer` in annotations only, which
stay text until `app.py` reads them, so that a hot command never loads it.
"""
