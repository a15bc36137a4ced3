"""What no writer of ours puts into a memory: a secret, a name that is another's where case does not count, a text twice."""

from __future__ import annotations

from collections.abc import Collection

from openoxide.errors import RefusedError
from openoxide.memory import secrets
from openoxide.memory.directory import Listing, MemoryDirectory
from openoxide.memory.editing import normalised
from openoxide.memory.markdown import decoded, page_of
from openoxide.memory.naming import INDEX, clash, parts_of


def refuse_secrets(name: str, text: str, before: str, known: Collection[str]) -> None:
    """Raises RefusedError for a secret that was not there ``before``."""
    found = secrets.new_in(text, before, known)
    if found:
        raise RefusedError(
            f"{name} would hold a {found[0].kind} in line {found[0].line}: {found[0].shown}",
            hint="say where it is kept instead of what it is; nothing was written",
            details={"secrets": [{"kind": one.kind, "line": one.line} for one in found]},
        )


def refuse_clash(name: str, listing: Listing, besides: str = "") -> None:
    """Raises RefusedError for a name that is that of another file where case does not count."""
    other = clash(parts_of(name), [known for known in listing.names if known != besides])
    if other:
        raise RefusedError(f"{name} is {other} where case does not count", hint=f"write to {other}")


def refuse_copy(directory: MemoryDirectory, name: str, text: str, listing: Listing) -> None:
    """Raises RefusedError where another file says ``text`` already; its details name it as ``same_as``."""
    said = normalised(page_of(text).body)
    words = set(said.split())
    size = len(text.encode("utf-8", "surrogatepass"))
    for file in listing.files:
        # a file of another size by half cannot say the same
        if file.name in (name, INDEX) or not said or not size / 2 <= file.size <= size * 2:
            continue
        raw = directory.read(file.name)
        other = decoded(raw.data) if raw is not None else ""
        folded = other.casefold()
        # most texts lack one of the words, and to find that out is far less work
        if all(word in folded for word in words) and normalised(page_of(other).body) == said:
            raise RefusedError(
                f"{file.name} says that already", hint="nothing was written", details={"same_as": file.name}
            )
