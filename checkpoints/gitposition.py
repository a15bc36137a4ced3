"""Where git stands, read from its files: nothing is written, nothing is locked, git is never run.

Whatever cannot be read or understood is an empty field. No more than a bounded part of any file is read, and only of
regular files, so that a tree made to harm cannot block or fill the daemon. No text that may hold a password leaves.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from openoxide.checkpoints.model import GitPosition

SHORT_SHA = 10
_SMALL_BYTES = 4 << 10  # HEAD, a loose ref, a .git file: longer ones are not git's
_CONFIG_BYTES = 256 << 10
_PACKED_REFS_BYTES = 1 << 20  # sorted by name, so the branches come before remotes and tags
_LOG_BYTES = 1 << 20
_SYMREF_DEPTH = 5  # as git follows them
_BRANCHES = b"refs/heads/"

_LOGGED = re.compile(rb"^[0-9a-f]+ ([0-9a-f]{40,64}) ", re.MULTILINE)
_SHA = re.compile(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?")
# git check-ref-format, as far as it keeps a name inside refs/ and on one line
# a ref becomes a path to read, so one that leads out of the repository must not pass
_REF = re.compile(rb"refs/(?!.*(?:\.\.|//|/\.|\.lock(?:/|$)))[^\x00-\x20\x7f~^:?*\[\\]+(?<![/.])", re.DOTALL)

_URL = re.compile(
    r"([A-Za-z][A-Za-z0-9+.-]*://)(?:[^/?#]*@)?"
    r"((?:\[[^/?#\]]*\]|[^/?#:\[\]@]*)(?::[0-9]*)?(?:/[^?#]*)?)((?:[?#].*)?)"
)
_SCP = re.compile(r"(?:[^/]*@)?((?:\[[^/\]]+\]|[^/@:]+):(?!:).*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Places:
    """``own`` holds HEAD and lies with the worktree; ``common`` holds branches and config, shared by all worktrees."""

    own: bytes
    common: bytes


def read_git(root: Path | bytes) -> GitPosition:
    """HEAD, branch and origin of the repository whose worktree ``root`` is; empty where it is none."""
    places = _places(os.fsencode(root))
    if places is None:
        return GitPosition()
    head, branch = _head(places)
    url = _config(places.common).get((b"remote", b"origin", b"url"), b"")
    return GitPosition(head=head, branch=branch, origin=without_userinfo(_text(url)))


def visited_heads(root: Path | bytes) -> frozenset[str]:
    """The commits that HEAD is and was at here, as far as the beginning of its log tells."""
    places = _places(os.fsencode(root))
    if places is None:
        return frozenset()
    logged = _LOGGED.findall(_read(os.path.join(places.own, b"logs/HEAD"), _LOG_BYTES, whole=False))
    return frozenset({*(sha.decode("ascii") for sha in logged), _head(places)[0]} - {""})


def common_dir(root: Path | bytes) -> bytes | None:
    """The real path of the git common dir: worktrees that share it are one project. None where there is none.

    A tree can carry a ``.git`` that points at someone else's repository, and must not become part of that project by
    saying so: a place outside ``root`` counts only if it names ``root`` in turn (git writes that into both).
    """
    folder = os.path.realpath(os.fsencode(root))
    places = _places(folder)
    if places is None or not os.path.isdir(os.path.join(places.common, b"objects")):
        return None
    own, common = os.path.realpath(places.own), os.path.realpath(places.common)
    return common if _confirms(common, own, folder) else None


def moved_since(old: GitPosition, new: GitPosition) -> str:
    """What git will say after a rewind from ``new`` to files of ``old``, and how to look at it; empty: nothing new."""
    was, now = _place(old), _place(new)
    if old.head == new.head:
        if not old.head or old.branch == new.branch:
            return ""
        return (
            f"HEAD switched from {was} to {now}, the same commit: git compares the rewound files with it as before; "
            "`git status` shows them"
        )
    if not new.head:
        return f"HEAD was at {was} and is at {now}: git will show the rewound files as new; `git status` shows them"
    shown = new.head[:SHORT_SHA]
    sentence = (
        f"HEAD moved from {was} to {now}: git will show the rewound files as changes against {shown}; "
        f"`git diff {shown}` shows them and `git status` what git does not track"
    )
    return f"{sentence}, `git log {old.head[:SHORT_SHA]}...{shown}` the commits between" if old.head else sentence


def without_userinfo(url: str) -> str:
    """``url`` without user, password, query and fragment; empty where it cannot be told what of it is secret."""
    if url.startswith(("/", "./", "../")):
        return url
    if match := _URL.fullmatch(url):
        scheme, rest, tail = match.groups()
        # an @ after the host: a password with an unescaped /, ? or # in it ended the user's part early
        return "" if "@" in rest + tail else scheme + rest
    if (match := _SCP.fullmatch(url)) and "://" not in url:
        return "" if "@" in match[1] else match[1]
    return "" if re.search("[:@]", url) else url  # not ext::COMMAND and its like


def _place(position: GitPosition) -> str:
    head = position.head[:SHORT_SHA] or "no commit"
    return f"{head} ({position.branch})" if position.branch else head


def _places(root: bytes) -> _Places | None:
    own = dot_git = os.path.join(root, b".git")
    if not os.path.isdir(dot_git):
        pointer = _line(_read(dot_git, _SMALL_BYTES))
        if not pointer.startswith(b"gitdir: "):
            return None
        # may be relative to the worktree, or absolute: join takes either
        own = os.path.join(root, pointer.removeprefix(b"gitdir: "))
    if not os.path.lexists(os.path.join(own, b"HEAD")):
        return None
    # without a file commondir both are one (gitrepository-layout(5))
    return _Places(own=own, common=os.path.join(own, _line(_read(os.path.join(own, b"commondir"), _SMALL_BYTES))))


def _confirms(common: bytes, own: bytes, folder: bytes) -> bool:
    if common != own:
        back = _line(_read(os.path.join(own, b"gitdir"), _SMALL_BYTES))
        # a linked worktree: the way back is worktrees/NAME/gitdir of the common dir (gitrepository-layout(5))
        inside = os.path.dirname(own) == os.path.join(common, b"worktrees")
        return inside and os.path.realpath(os.path.join(own, back)) == os.path.join(folder, b".git")
    # with the slash: /a/bc is not below /a/b
    if own.startswith(os.path.join(folder, b"")):
        return True
    worktree = _config(common).get((b"core", b"", b"worktree"))  # a submodule's way back
    return worktree is not None and os.path.realpath(os.path.join(own, worktree)) == folder


def _head(places: _Places) -> tuple[str, str]:
    ref = _head_ref(places.own)
    if _SHA.fullmatch(ref):
        return ref.decode("ascii"), ""
    branch = _text(ref.removeprefix(_BRANCHES)) if ref.startswith(_BRANCHES) and _REF.fullmatch(ref) else ""
    for _ in range(_SYMREF_DEPTH):
        if not _REF.fullmatch(ref):
            break
        # a loose ref goes before packed-refs, which may be older (git-pack-refs(1))
        value = _loose(places, ref) or _packed(places.common, ref)
        if _SHA.fullmatch(value):
            return value.decode("ascii"), branch
        ref = _symref(value)
    return "", branch


def _head_ref(own: bytes) -> bytes:
    """What HEAD says: a ref's name or a commit."""
    path = os.path.join(own, b"HEAD")
    try:
        target = os.readlink(path)  # how git wrote HEAD until 2005, and with core.preferSymlinkRefs
    except OSError:
        target = b""
    content = target if target.startswith(b"refs/") else _line(_read(path, _SMALL_BYTES))
    return _symref(content) or content


def _symref(content: bytes) -> bytes:
    return content.removeprefix(b"ref:").lstrip() if content.startswith(b"ref:") else b""


def _loose(places: _Places, ref: bytes) -> bytes:
    shared = _line(_read(os.path.join(places.common, ref), _SMALL_BYTES))
    # refs/bisect and refs/worktree are each worktree's own (git-worktree(1))
    return shared or _line(_read(os.path.join(places.own, ref), _SMALL_BYTES))


def _packed(common: bytes, ref: bytes) -> bytes:
    content = _read(os.path.join(common, b"packed-refs"), _PACKED_REFS_BYTES, whole=False)
    # with the line's end: a name that the limit cut short is another name
    match = re.search(rb"^([0-9a-f]+) " + re.escape(ref) + rb"\n", content, re.MULTILINE)
    return match[1] if match else b""


_TOKEN = re.compile(
    rb"""[#;][^\n]*
    | ^[ \t]*\[ [ \t]*(?P<section>[A-Za-z0-9.-]+) (?:[ \t]+"(?P<sub>(?:[^"\\\n]|\\[^\n])*)")? [ \t]*\]
    | (?:^|(?<=\]))[ \t]*(?P<key>[A-Za-z][A-Za-z0-9-]*)[ \t]*=[ \t]*
      (?P<value>(?:[^\\"\n#;]|\\.|"(?:[^"\\\n]|\\.)*")*)""",
    re.VERBOSE | re.MULTILINE | re.DOTALL,
)
_VALUE_ESCAPES = {b"\\\n": b"", b"\\n": b"\n", b"\\t": b"\t", b"\\b": b"\b", b'"': b""}


def _config(common: bytes) -> dict[tuple[bytes, bytes, bytes], bytes]:
    """The first value of each ``(section, subsection, key)``; includes and values without ``=`` are left out."""
    values: dict[tuple[bytes, bytes, bytes], bytes] = {}
    section = sub = b""
    for token in _TOKEN.finditer(_read(os.path.join(common, b"config"), _CONFIG_BYTES).replace(b"\r\n", b"\n")):
        if token["section"] is not None:
            section = token["section"].lower()
            sub = re.sub(rb"\\(.)", rb"\1", token["sub"] or b"")
        elif token["key"] is not None:
            value = re.sub(rb'\\.|"', _unescaped, token["value"].strip(b" \t"), flags=re.DOTALL)
            # of several urls git fetches from the first (git-config(1), remote.<name>.url)
            values.setdefault((section, sub, token["key"].lower()), value)
    return values


def _unescaped(match: re.Match[bytes]) -> bytes:
    return _VALUE_ESCAPES.get(match[0], match[0][-1:])


def _line(content: bytes) -> bytes:
    return content.rstrip(b"\r\n")


def _text(content: bytes) -> str:
    """``content`` as one line of text that a database takes; empty if it is not one or is absurdly long."""
    text = content.decode("utf-8", "backslashreplace")
    return "" if len(content) > _SMALL_BYTES or re.search(r"[\x00-\x1f\x7f-\x9f]", text) else text


def _read(path: bytes, limit_bytes: int, *, whole: bool = True) -> bytes:
    """The content of a regular text file; empty where there is none, or where it is longer and wanted ``whole``."""
    if not os.path.isfile(path):  # opening a device can already do something
        return b""
    try:
        # a FIFO put there since must not block
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            content = file.read(limit_bytes + 1) or b""
    except OSError:
        return b""
    if b"\0" in content or (whole and len(content) > limit_bytes):
        return b""
    return content[:limit_bytes]
