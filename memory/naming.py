"""Which names a memory takes, and which roots have one. Pure: nothing is opened, a name alone is judged.

A name is the path of a file below the memory directory, its parts divided by ``/``. Whatever could mean another file than
the one that is written (a way up, an encoding of one, a look-alike of a separator, a name that some system reserves or
folds) is refused, with the reason, before the system ever sees it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from pathlib import PurePath

from openoxide.errors import RefusedError

INDEX = "MEMORY.md"
SUFFIX = ".md"
MOST_PART_BYTES, MOST_NAME_BYTES, MOST_PARTS = 200, 1_000, 5  # a file system takes 255 bytes; staging adds to a name

# devices of Windows, with whatever ending (Naming Files, Paths, and Namespaces)
_RESERVED = re.compile(r"(?i)(?:con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])(?:\..*)?")
# a client that decodes once more than we do would be led elsewhere
_ENCODED = re.compile(r"%[0-9A-Fa-f]{2}")
_FORBIDDEN = frozenset('\\:*?"<>|')
_MEANING = "./\\:%"
# Cc and Cf: control and invisible characters; Cs: halves of surrogate pairs; Co, Cn: nobody knows what they show
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


# a listing judges each name again, before each search
@lru_cache(maxsize=4_096)
def parts_of(name: str) -> tuple[str, ...]:
    """The parts of a name of a file in the memory, as they are written. Raises RefusedError with the reason."""
    # judged in its normal form and kept in its own: a file that came from macOS is called as it is called
    normal = unicodedata.normalize("NFC", name)
    parts = tuple(normal.split("/"))
    reason = _whole_reason(normal, parts) or next(filter(None, map(_part_reason, parts)), "")
    if reason:
        raise RefusedError(
            f"{shown(name)} is no name for a memory file: {reason}",
            hint="use a short name such as debugging.md, at most in a folder: api/conventions.md",
        )
    return tuple(name.split("/"))


def topic_of(name: str) -> tuple[str, ...]:
    """The parts of a topic's name, which ends in ``.md`` and is not the index. Raises RefusedError."""
    parts = parts_of(name)
    if not parts[-1].endswith(SUFFIX):
        raise RefusedError(f"{shown(name)} is no name for a topic: it does not end in {SUFFIX}", hint=f"add {SUFFIX}")
    if is_index(parts):
        raise RefusedError(f"{INDEX} is the index, not a topic", hint="name a file of its own")
    return parts


def is_index(parts: tuple[str, ...]) -> bool:
    """Whether these parts name the index."""
    return parts == (INDEX,)


def is_topic(name: str) -> bool:
    """Whether a file is one that the index leads to."""
    return name.endswith(SUFFIX) and not is_index(parts_of(name))


def clash(parts: tuple[str, ...], names: Iterable[str]) -> str:
    """The one of ``names`` that a file system which folds case would take for the same file, empty if there is none."""
    wanted = "/".join(parts)
    return next((name for name in names if name != wanted and _folded(name) == _folded(wanted)), "")


def id_of(text: str) -> str:
    """A project's or worktree's id, as it stands in a path of the home. Raises RefusedError."""
    if not _ID.fullmatch(text):
        raise RefusedError(f"{shown(text)} is no id of a project", hint="ids come from `oxide-ctl projects`")
    return text


def refused_root(root: PurePath, home: PurePath, temporary: Iterable[PurePath]) -> str:
    """Why a directory has no memory of its own, empty where it has one: everything that is started in a home or in a
    folder for temporary files would share it. All are real paths.
    """
    if root == PurePath(root.anchor):
        return "it is the root of the file system"
    if root == home:
        return "it is your home directory"
    # by components: /home/user2 does not hold /home/user
    if root in home.parents:
        return "your home directory is inside it"
    if root in set(temporary):
        return "it is a folder for temporary files"
    return ""


def moved(path: PurePath, old: PurePath, new: PurePath) -> PurePath:
    """``path`` after ``old`` became ``new``: by components, so that /p/app2 stays when /p/app moves."""
    return new / path.relative_to(old) if path.is_relative_to(old) else path


def shown(text: str) -> str:
    """A text of any bytes as a message may hold it: short, and without characters that act on a terminal."""
    safe = "".join(c if unicodedata.category(c) not in _UNSEEN else f"<U+{ord(c):04X}>" for c in text[:80])
    return f"“{safe}{'…' if len(text) > 80 else ''}”"


def _whole_reason(name: str, parts: tuple[str, ...]) -> str:
    if not name:
        return "it is empty"
    if len(name.encode("utf-8", "surrogatepass")) > MOST_NAME_BYTES:
        return f"it is longer than {MOST_NAME_BYTES} bytes"
    if name.startswith("/"):
        return "it is absolute"
    if len(parts) > MOST_PARTS:
        return f"it has more than {MOST_PARTS} parts"
    if len(parts) == 1 and _folded(name) == _folded(INDEX) and name != INDEX:
        return f"where case does not count it is {INDEX}"
    return ""


def _part_reason(part: str) -> str:
    if any(unicodedata.category(char) in _UNSEEN for char in part):
        return "it holds a character that cannot be seen"
    # a hidden file; what a shell makes a home of; what a program takes for an option
    if not part or part[0] in ".~-":
        return f"a part of it begins with {part[0]}" if part else "a part of it is empty"
    if _FORBIDDEN & set(part):
        return f"it holds {min(_FORBIDDEN & set(part))}"
    return "it holds an encoded character" if _ENCODED.search(part) else _odd_reason(part)


def _odd_reason(part: str) -> str:
    # Windows leaves them off, and two names become one
    if part != part.strip() or part.endswith("."):
        return "a part of it begins or ends with a space or a dot"
    # a program that folds compatible characters would read a way up, or a separator
    plain = unicodedata.normalize("NFKC", part)
    if any(plain.count(char) != part.count(char) for char in _MEANING):
        return "it holds a look-alike of a dot, a slash or a percent sign"
    if _RESERVED.fullmatch(part):
        return "some systems reserve it"
    if len(part.encode()) > MOST_PART_BYTES:
        return f"a part of it is longer than {MOST_PART_BYTES} bytes"
    return ""


def _folded(name: str) -> str:
    # folding may take a text out of its normal form (Unicode 15, 3.13)
    return unicodedata.normalize("NFC", name.casefold())
