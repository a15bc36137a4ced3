"""What is said of a project's memory: its files, their versions, what agents get of them."""

from __future__ import annotations

from typing import NotRequired, TypedDict


class IndexMove(TypedDict):
    """A line of the index that had better move; ``reason`` is dead, twice, long, detail, unused or structure."""

    line: int
    text: str
    reason: str


class MemoryIndexAnswer(TypedDict):
    """``memory index``: ``text`` is what an agent is given of MEMORY.md, without secrets; ``first_cut`` the first line that
    is missing, 0 if none is. ``near``: nine tenths of what loads are used up. ``left_out``: what nobody has accepted,
    where that is not given.
    """

    ok: bool
    path: str
    text: str
    warning: str
    lines: int
    units: int
    loaded_lines: int
    first_cut: int
    near: bool
    left_out: str
    moves: list[IndexMove]


class TopicItem(TypedDict):
    """One topic. ``layer``: project, or worktree where it is the worktree's own. ``standing`` is verified, unverified or
    disputed; ``tainted`` the tool by which whoever wrote it had read what nobody vouches for, empty if there was none.
    """

    name: str
    title: str
    description: str
    type: str
    size_bytes: int
    modified_at: str
    layer: str
    standing: str
    tainted: str


class MemoryFile(TypedDict):
    """``memory read``: ``hash`` (SHA-256) is of the whole file as it is, what ``--if-hash`` takes; ``cut`` says what is
    missing of a long one; ``redacted`` how many secrets do not stand in ``text``. ``version``: the one that was asked for.
    """

    ok: bool
    name: str
    text: str
    hash: str
    size_bytes: int
    cut: str
    redacted: int
    version: int | None


class IndexChange(TypedDict):
    """A line of the index that is other than before: ``did`` is added, updated, marked or unmarked."""

    did: str
    name: str


class MemoryWritten(TypedDict):
    """What a write did. ``hash`` is empty for a file that is gone; ``trash`` names what was put aside; ``version`` is the
    position that holds it, None where it could not be recorded (a note says why). ``advice`` is for whoever wrote.
    """

    ok: bool
    name: str
    hash: str
    changed: bool
    index: list[IndexChange]
    advice: list[str]
    trash: str
    version: int | None
    notes: list[str]


class HitItem(TypedDict):
    """A file that fits a search; ``line`` is where it stands first."""

    name: str
    title: str
    snippet: str
    line: int


class NoteVersion(TypedDict):
    """One version of a file of the memory. ``version`` names it; ``at``: when it had been recorded, None while it was not
    sealed. ``agents``, ``sessions`` and ``prompts`` are of its writer, ``operation`` the rewind that made it; ``standing`` and
    ``tainted`` as of a topic, of the text that it brought. ``blob`` is what ``purge --blob`` takes; ``reason`` is ``purged``
    where that was done, else empty.
    """

    name: str
    version: int
    at: str | None
    status: str | None
    size_bytes: int | None
    blob: str | None
    reason: str
    certainty: str
    agents: list[str]
    sessions: list[str]
    prompts: list[str]
    operation: str | None
    standing: str
    tainted: str


class ReviewItem(NoteVersion):
    """A file that waits for a review: the version that brought its text. ``added`` and ``removed`` count lines against the last
    text of it that somebody vouched for; ``lines`` are those of the index that wait along with it.
    """

    hash: str
    added: int
    removed: int
    lines: list[str]


class MarkedAnswer(TypedDict):
    """What the user said, and of which files."""

    ok: bool
    names: list[str]
    standing: str


class BlameLine(TypedDict):
    """A line of a file and the version that brought it."""

    line: int
    text: str
    version: int


class BlameAnswer(TypedDict):
    """``memory blame``: every line, and the versions that they come from, by number."""

    ok: bool
    name: str
    lines: list[BlameLine]
    versions: list[NoteVersion]


class LintItem(TypedDict):
    """A finding. ``error``: it loses something, or gives something away."""

    kind: str
    name: str
    line: int
    message: str
    hint: str
    error: bool


class LintAnswer(TypedDict):
    """``memory lint``."""

    ok: bool
    items: list[LintItem]
    errors: int


class SourceItem(TypedDict):
    """A file that an agent is given; ``why``: what brought it in; ``cut``: what is missing of it."""

    path: str
    level: str
    size_bytes: int
    why: str
    cut: str


class GivenObject(TypedDict):
    """The memory's part: ``way`` is hook, file or native; ``size`` in ``measure`` under ``cap`` (0: none)."""

    way: str
    text: str
    size: int
    cap: int
    measure: str
    warning: str


class ContextAnswer(TypedDict):
    """``memory context``: what an agent gets at the start of a session, in the order of loading. ``written``: the file that
    was generated.
    """

    ok: bool
    agent: str
    cwd: str
    size_bytes: int
    sources: list[SourceItem]
    skipped: list[dict[str, str]]
    memory: GivenObject | None
    written: NotRequired[str]


class ToolAnswer(TypedDict):
    """``memory_tool``: what the tool's result holds."""

    ok: bool
    text: str
    is_error: bool


class RevertedAnswer(TypedDict):
    """``memory revert``: what was brought back, and what could not be, with the reason."""

    ok: bool
    written: list[MemoryWritten]
    left: list[dict[str, str]]


class MassDeletion(TypedDict):
    """Files that are gone since many went at once; ``version`` is the state before, which is pinned."""

    at: str
    version: int
    files: list[str]


class PromotedItem(TypedDict):
    """What became of a topic: added, same, both or refused (``reason``). ``retired``: it went to the trash of where it was."""

    name: str
    became: str
    reason: str
    retired: bool


class PromotedAnswer(TypedDict):
    """``memory promote``: ``worktree`` and ``root`` say whose notes they were (``root`` null where that is not known), ``path``
    where they lie.
    """

    ok: bool
    dry_run: bool
    worktree: str
    root: str | None
    path: str
    items: list[PromotedItem]
    notes: list[str]


class KeptNotes(TypedDict):
    """A memory that nobody reads any more. ``worktree`` is empty for the project's own; ``reason``: gone (the worktree is), or
    policy (memory.worktrees says so). ``command``: what brings it back.
    """

    worktree: str
    root: str | None
    path: str
    files: int
    reason: str
    command: str


class MemoryStatus(TypedDict):
    """The memory of a project, as ``status`` shows it: ``policy`` is memory.worktrees, ``state`` and ``reason`` as of a worktree,
    ``warning`` where not all of the index loads or nearly not.
    """

    policy: str
    path: str
    state: str
    reason: str
    files: int
    bytes: int
    version: int
    warning: str
    deletions: list[MassDeletion]
    interrupted: list[str]
