"""What is captured and what not, each "no" with its reason. Pure: ignore files come in as bytes, nothing is read here.

Invariants:

* An answer depends only on the settings and the ignore files loaded now, never on the order of loads or of questions.
* The staging folder, ``.git`` and an OpenOxide home are skipped whatever any file says.
* No content of an ignore file raises: a line that git would not understand matches nothing.

``.gitignore`` and ``.git/info/exclude`` never hide anything by themselves: they lower the limits of what they match
(:meth:`Rules.ignored_top`) and confirm that a folder with the name of a build output is one. ``.oxideignore`` decides:
a match skips; a negated match lifts default skips and lowered limits for the entry and everything below it, until
a deeper match says otherwise. Patterns work as in git on bytes (wildmatch with slashes significant, last match in a
file wins, the deeper file wins, nothing below a matched directory comes back). One difference is left: stars beside
other text (``a**/b``) never cross a slash, as gitignore(5) says, while git lets them when the text is literal.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from openoxide.checkpoints.model import STAGING_NAME, SkipReason
from openoxide.settings import CaptureSettings

OXIDEIGNORE = b".oxideignore"
IGNORE_FILES = (b".gitignore", OXIDEIGNORE)
GIT_EXCLUDE = b".git/info/exclude"

# both together: either name alone may be anybody's
_HOME_MARKERS = frozenset({b"oxided.lock", b"timeline.db"})
CACHE_TAG = b"CACHEDIR.TAG"
CACHE_SIGNATURE = b"Signature: 8a477f597d28d172789f06886806bc55"  # https://bford.info/cachedir/: without it, no tag
_MARKERS = {b"pyvenv.cfg": SkipReason.VIRTUAL_ENVIRONMENT, CACHE_TAG: SkipReason.CACHE}
MARKER_NAMES = _HOME_MARKERS | _MARKERS.keys()

_SKIPPED_NAMES = {
    **dict.fromkeys((b".hg", b".svn", b".bzr", b".jj", b".sl", b"CVS", b"_darcs", b".pijul"), SkipReason.VCS),
    b"node_modules": SkipReason.DEPENDENCIES,
    b"__pycache__": SkipReason.CACHE,
}
_FOSSIL_CHECKOUT = frozenset({b".fslckout", b"_FOSSIL_"})  # Fossil keeps its internals in one file beside the sources
# the file .git of a submodule or a linked worktree names the repository
_OWN_NAMES = {STAGING_NAME: SkipReason.OPENOXIDE, b".git": SkipReason.VCS}
RESERVED_NAMES = _FOSSIL_CHECKOUT | _OWN_NAMES.keys()  # never recorded where they are no directories

# Names that tools give to what they can make again. Not here, since people also keep work of their own under them:
# bin, obj, lib, data, tmp, logs, .yarn, .ipynb_checkpoints.
_BUILD_NAMES = frozenset(
    b"build _build dist dist-newstyle out target vendor .next .nuxt .output .svelte-kit .turbo .parcel-cache .angular "
    b".astro .docusaurus .gradle .build DerivedData Pods bower_components .pnpm-store .dart_tool .stack-work "
    b"elm-stuff zig-cache .zig-cache zig-out CMakeFiles .tox .nox .mypy_cache .pytest_cache .ruff_cache .hypothesis "
    b".eggs htmlcov coverage .nyc_output .sass-cache .cache .terraform .serverless .aws-sam".split()
)
_BUILD_SHAPE = re.compile(rb".+\.egg-info|cmake-build-.+", re.DOTALL).fullmatch

# Names that some file system takes for .git: other case, NTFS (short name, trailing dots and blanks, streams), HFS+
# (ignored code points). git refuses to track them too (CVE-2014-9390, CVE-2019-1353), so no repository loses content
# by this, and a rewind can never write a hook through such a name.
_NTFS_GIT = re.compile(rb"(?:\.git|git~1)[ .]*(?:[:\\].*)?", re.DOTALL | re.IGNORECASE).fullmatch
_HFS_IGNORED = dict.fromkeys((*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF))


class Rules:
    """The rules of one worktree, fed with its ignore files by whoever scans it, from one thread at a time."""

    def __init__(self, settings: CaptureSettings, *, everything: bool = False) -> None:
        """``everything``: no ignore file and no name leaves anything out, but for what is never recorded."""
        self._everything = everything
        lines = (text.encode("utf-8", "surrogateescape") for text in settings.extra_skip)
        self._extra = (_IgnoreFile(b"", lines),) if settings.extra_skip else ()
        self._files: dict[bytes, dict[bytes, _IgnoreFile]] = {}
        # a directory is in here only if all its ancestors are: what _forget rests on
        self._scopes: dict[bytes, _Scope] = {b"": _Scope()}

    def load(self, directory: bytes, name: bytes, content: bytes | None) -> bool:
        """Take ``content`` for the ignore file, or drop it (None). True if the rules below ``directory`` changed.

        ``name`` is one of IGNORE_FILES, or GIT_EXCLUDE with the root. An edit that leaves every pattern is no change.
        """
        if self._everything:
            return False
        here = self._files.setdefault(directory, {})
        old = here.pop(name, None)
        if content is not None:
            # git passes over a byte order mark too
            here[name] = _IgnoreFile(directory, content.removeprefix(b"\xef\xbb\xbf").split(b"\n"))
        elif not here:
            del self._files[directory]
        changed = (old.patterns if old else ()) != (here[name].patterns if name in here else ())
        if changed:
            self._forget(directory)
        return changed

    def loaded(self, directory: bytes) -> frozenset[bytes]:
        """Which of IGNORE_FILES are loaded for ``directory`` (GIT_EXCLUDE lies elsewhere and is never listed)."""
        return frozenset(self._files.get(directory, ())) - {GIT_EXCLUDE}

    def drop_below(self, directory: bytes) -> None:
        """``directory`` is gone: forget the ignore files in it and below."""
        for known in [known for known in self._files if _is_within(known, directory)]:
            del self._files[known]
        self._forget(directory)

    def skip_directory(self, path: bytes, markers: Collection[bytes]) -> SkipReason | None:
        """Why the directory ``path`` is not recorded at all, None if it is. The ancestors have been asked before.

        ``markers`` are the MARKER_NAMES found in it (CACHEDIR.TAG only with its signature); empty where not known.
        """
        name = _name(path)
        if not path:
            return None
        # before any file is asked: nothing can bring these back
        if name == STAGING_NAME or _HOME_MARKERS.issubset(markers):
            return SkipReason.OPENOXIDE
        if _folds_to_git(name):
            return SkipReason.VCS
        scope = self._scope(_parent(path))
        # the tree's own word goes before the settings', which can only leave out more (docs/design.md, 5)
        chosen = False if self._everything else _chosen(scope, path, is_directory=True)
        if chosen is not None:
            return SkipReason.OXIDEIGNORE if chosen else None
        if _verdict(self._extra, path, is_directory=True):
            return SkipReason.EXTRA_SKIP
        return _default_reason(scope, path, name, markers)

    def skip_entry(self, path: bytes) -> SkipReason | None:
        """Why ``path``, which is no directory, is not recorded, None if it is. The ancestors have been asked before."""
        name = _name(path)
        if name in _OWN_NAMES:
            return _OWN_NAMES[name]
        chosen = False if self._everything else _chosen(self._scope(_parent(path)), path, is_directory=False)
        if chosen is not None:
            return SkipReason.OXIDEIGNORE if chosen else None
        if _verdict(self._extra, path, is_directory=False):
            return SkipReason.EXTRA_SKIP
        # last, unlike .git: somebody may want this file recorded and say so
        return SkipReason.VCS if name in _FOSSIL_CHECKOUT else None

    def has_no_say(self, directory: bytes) -> bool:
        """Whether of the entries of ``directory`` that are no directories only RESERVED_NAMES are skipped, and none lies in
        an ignored directory: then nobody has to ask for each.
        """
        scope = self._scope(directory)
        return not self._extra and not scope.oxide and scope.chosen is None and scope.top is None

    def ignored_top(self, path: bytes, is_directory: bool) -> bytes | None:  # noqa: FBT001 - as os.symlink has it
        """The topmost directory above ``path`` that git ignores, or ``path``; None if not ignored or re-included."""
        scope = self._scope(_parent(path))
        if _chosen(scope, path, is_directory=is_directory) is False:
            return None
        if scope.top is not None:
            return scope.top
        return path if _verdict(scope.git, path, is_directory=is_directory) else None

    def _scope(self, directory: bytes) -> _Scope:
        missing = []
        while (scope := self._scopes.get(directory)) is None:  # no recursion: trees get deeper than Python's stack
            missing.append(directory)
            directory = _parent(directory)
        for directory in reversed(missing):
            scope = self._scopes[directory] = self._enter(scope, directory)
        return scope

    def _enter(self, outer: _Scope, directory: bytes) -> _Scope:
        own = self._files.get(directory, {})
        chosen, top = outer.chosen, outer.top
        if directory:
            chosen = _chosen(outer, directory, is_directory=True)
            # the topmost one stands: nothing below an ignored directory comes back (gitignore(5))
            if top is None and _verdict(outer.git, directory, is_directory=True):
                top = directory
        # most directories say nothing of their own and share what holds above them
        if not own and chosen is outer.chosen and top is outer.top:
            return outer
        # the deepest first; in the root .gitignore before info/exclude, as gitignore(5) orders them
        git = tuple(own[name] for name in (b".gitignore", GIT_EXCLUDE) if name in own) + outer.git
        oxide = (own[OXIDEIGNORE], *outer.oxide) if OXIDEIGNORE in own else outer.oxide
        return _Scope(git=git, oxide=oxide, chosen=chosen, top=top)

    def _forget(self, directory: bytes) -> None:
        if directory in self._scopes:
            for known in [known for known in self._scopes if _is_within(known, directory)]:
                del self._scopes[known]
        # the root's is made again at once: every way up in _scope ends there
        if not directory:
            self._scopes[b""] = self._enter(_Scope(), b"")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scope:
    """What holds inside one directory: its ignore files, deepest first, and what was said about itself.

    ``chosen`` is .oxideignore's word for it: True skip, False re-include, None silent; ``top`` as in ignored_top.
    """

    git: tuple[_IgnoreFile, ...] = ()
    oxide: tuple[_IgnoreFile, ...] = ()
    chosen: bool | None = None
    top: bytes | None = None


def _chosen(scope: _Scope, path: bytes, *, is_directory: bool) -> bool | None:
    # below a directory that is skipped nothing is asked any more
    if scope.chosen or not scope.oxide:
        return scope.chosen
    own = _verdict(scope.oxide, path, is_directory=is_directory)
    return scope.chosen if own is None else own


def _verdict(files: tuple[_IgnoreFile, ...], path: bytes, *, is_directory: bool) -> bool | None:
    if not files:
        return None
    name = _name(path)
    for file in files:
        found = file.verdict(path, name, is_directory=is_directory)
        if found is not None:
            return found
    return None


def _default_reason(scope: _Scope, path: bytes, name: bytes, markers: Collection[bytes]) -> SkipReason | None:
    if name in _SKIPPED_NAMES:
        return _SKIPPED_NAMES[name]
    for marker, reason in _MARKERS.items():
        if marker in markers:
            return reason
    # A rule has to match this very directory. Being below an ignored one is not enough: some trees ignore all of
    # themselves ("/*", as in Debian's kernel sources), and a folder "build" full of sources would be lost.
    if (name in _BUILD_NAMES or _BUILD_SHAPE(name)) and _verdict(scope.git, path, is_directory=True):
        return SkipReason.BUILD_OUTPUT
    return None


def _folds_to_git(name: bytes) -> bool:
    if name == b".git" or _NTFS_GIT(name):
        return True
    return not name.isascii() and name.decode("utf-8", "replace").translate(_HFS_IGNORED).lower() == ".git"


def _name(path: bytes) -> bytes:
    return path[path.rfind(b"/") + 1 :]


def _parent(path: bytes) -> bytes:
    return path[: max(path.rfind(b"/"), 0)]


def _is_within(path: bytes, directory: bytes) -> bool:
    return not directory or path == directory or path.startswith(directory + b"/")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pattern:
    """One line of an ignore file. ``body`` has neither its ``!`` nor the slashes at its ends."""

    body: bytes
    negated: bool
    directory_only: bool
    by_name: bool  # no slash inside: holds for the last component, at any depth


class _IgnoreFile:
    """The patterns of one ignore file, compiled."""

    def __init__(self, directory: bytes, lines: Iterable[bytes]) -> None:
        self.patterns = tuple(pattern for line in lines if (pattern := _parse(line)))
        self._base = len(directory) + 1 if directory else 0
        numbered = list(enumerate(self.patterns))
        self._for_directories = _columns(numbered)
        self._for_others = _columns([(number, pattern) for number, pattern in numbered if not pattern.directory_only])

    def verdict(self, path: bytes, name: bytes, *, is_directory: bool) -> bool | None:
        """What the last pattern that matches ``path`` says: True ignore, False re-include, None if none matches."""
        names, paths = self._for_directories if is_directory else self._for_others
        number = max(names.last_match(name), paths.last_match(path[self._base :]))
        return None if number < 0 else not self.patterns[number].negated


class _Column:
    """Patterns that are held against the same text, as cheaply as can be.

    All literals and ``*literal`` together cost a dict lookup, all others one joint regular expression until it matches.
    """

    def __init__(self, numbered: Sequence[tuple[int, _Pattern]]) -> None:
        self._literals: dict[bytes, int] = {}
        self._suffixes: dict[bytes, int] = {}
        globs: list[tuple[int, bytes]] = []
        for number, pattern in numbered:  # ascending, so a later twin replaces an earlier one
            body = pattern.body
            if _GLOB(body) is None:
                self._literals[body] = number
            elif pattern.by_name and body[:1] == b"*" and len(body) > 1 and _GLOB(body, 1) is None:
                self._suffixes[body[1:]] = number
            else:
                globs.append((number, _translate(body)))
        self._suffix_lengths = sorted({len(suffix) for suffix in self._suffixes})
        self._any = re.compile(b"|".join(regex for _, regex in globs), re.DOTALL).fullmatch if globs else None
        self._latest_first = [(number, re.compile(regex, re.DOTALL).fullmatch) for number, regex in reversed(globs)]

    def last_match(self, text: bytes) -> int:
        """The highest number of a pattern that matches, -1 if none does."""
        best = self._literals.get(text, -1)
        for length in self._suffix_lengths:
            best = max(best, self._suffixes.get(text[-length:], -1))
        if self._any is None or self._any(text) is None:
            return best
        # the joint expression tells that one of them matches, and not which
        return max(best, next(number for number, match in self._latest_first if match(text)))


def _columns(numbered: list[tuple[int, _Pattern]]) -> tuple[_Column, _Column]:
    """Those for the name and those for the path."""
    names = [(number, pattern) for number, pattern in numbered if pattern.by_name]
    return _Column(names), _Column([(number, pattern) for number, pattern in numbered if not pattern.by_name])


def _parse(line: bytes) -> _Pattern | None:
    # as git, which takes CRLF for an end of line and reads each line as a C string
    line = line.removesuffix(b"\r").partition(b"\0")[0]
    stripped = line.rstrip(b" ")
    backslashes = len(stripped) - len(stripped.rstrip(b"\\"))
    body = line[: len(stripped) + backslashes % 2]  # an odd number of backslashes escapes the first space
    if body[:1] == b"#":
        return None
    negated, directory_only = body[:1] == b"!", body[-1:] == b"/"
    body = body[negated : len(body) - directory_only]
    # before the leading slash is taken off: that alone ties a pattern to its directory
    by_name = b"/" not in body
    body = body.removeprefix(b"/")
    if not body:
        return None
    return _Pattern(body=body, negated=negated, directory_only=directory_only, by_name=by_name)


_GLOB = re.compile(rb"[*?\[\\]").search
_STAR, _SLASH, _NEVER = b"*", b"/", b"(?!)"
_MEMBER = re.compile(rb"\[:(?P<name>[^\]]*):\]|\\?+(?P<low>.)(?:-(?P<high>\\.|[^\]\\]))?", re.DOTALL).match
_CLASSES = {
    b"alnum": rb"0-9A-Za-z", b"alpha": rb"A-Za-z", b"blank": rb" \t", b"cntrl": rb"\x00-\x1f\x7f", b"digit": rb"0-9",
    b"graph": rb"!-~", b"lower": rb"a-z", b"print": rb" -~", b"punct": rb"!-.:-@\[-`{-~", b"space": rb" \t-\r",
    b"upper": rb"A-Z", b"xdigit": rb"0-9A-Fa-f",
}  # fmt: skip


def _translate(body: bytes) -> bytes:
    """``body`` as a regular expression for the whole name or path."""
    segments: list[list[bytes]] = [[]]
    for token in _tokens(body):
        if token == _SLASH:
            segments.append([])
        else:
            segments[-1].append(token)
    runs: list[list[bytes]] = [[]]
    for segment in segments:
        if len(segment) > 1 and set(segment) == {_STAR}:
            runs.append([])
        else:
            runs[-1].append(_segment_regex(segment))
    return _path_regex(runs)


def _path_regex(runs: list[list[bytes]]) -> bytes:
    """``runs`` of segments with a ``**`` between each two."""
    first, *middle = (b"".join(segment + _SLASH for segment in run) for run in runs[:-1] or [[]])
    # a trailing ** means everything inside, not the directory itself (gitignore(5))
    last = _SLASH.join(runs[-1]) if runs[-1] else b".+"
    inner = b"".join(rb"(?>(?:[^/]+/)*?%b)" % run for run in middle if run)
    return first + inner + (rb"(?:[^/]+/)*" if runs[1:] and runs[-1] else b"") + last


def _segment_regex(tokens: list[bytes]) -> bytes:
    """``tokens`` of one segment, each of which but a star stands for exactly one byte."""
    pieces = [b""]
    for token in tokens:
        if token == _STAR:
            pieces.append(b"")
        else:
            pieces[-1] += token
    if len(pieces) == 1:
        return pieces[0]
    # Where a later star can take up the rest, the first place that fits is as good as any other, so these groups are
    # atomic (in re since Python 3.11) and a hostile pattern (*a*a*a*b) costs no more than a plain one.
    first, *middle, last = pieces
    return first + b"".join(rb"(?>[^/]*?%b)" % piece for piece in middle if piece) + rb"[^/]*" + last


def _tokens(body: bytes) -> Iterator[bytes]:
    """_STAR, _SLASH, or a regular expression for one byte; _NEVER where git gives up on the pattern."""
    at = 0
    while at < len(body):
        byte = body[at : at + 1]
        at += 1
        if byte == b"[":
            at, byte = _set(body, at)
        elif byte == b"?":
            byte = b"[^/]"
        elif byte == b"\\":
            byte = re.escape(body[at : at + 1]) or _NEVER
            at += 1
        elif byte != _STAR:
            byte = re.escape(byte)
        yield byte


def _set(body: bytes, at: int) -> tuple[int, bytes]:
    """The set whose members begin at ``at``, and where it ends: as wildmatch reads it, a first ``]`` is a member."""
    negated = body[at : at + 1] in (b"!", b"^")
    at += negated
    parts: list[bytes] = []
    while not parts or body[at : at + 1] != b"]":
        match = _MEMBER(body, at)
        if match is None or match["name"] not in (None, *_CLASSES):
            return len(body), _NEVER
        if match["low"] is None:
            parts.append(_CLASSES[match["name"]])
        else:
            low, high = match["low"][0], (match["high"] or match["low"])[-1]
            parts.append(b"\\x%02x-\\x%02x" % (low, max(low, high)))  # the lower end counts even if it is not one
        at = match.end()
    return at + 1, (b"[^/%b]" if negated else b"(?!/)[%b]") % b"".join(parts)
