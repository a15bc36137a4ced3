"""A project's memory: what agents noted, who wrote it, and how it comes back."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated, Any, Literal

from openoxide.cli import notes
from openoxide.cli.confirm import PLAN_HINT, need_terminal, need_yes
from openoxide.cli.context import Cli
from openoxide.cli.units import count
from openoxide.errors import EXIT_DONE, EXIT_FAILED, EXIT_PARTIAL, FailedError, UsageError

if TYPE_CHECKING:
    import typer

    from openoxide.daemon.protocol.memories import MemoryWritten

Agent = Literal["claude", "codex", "opencode", "gemini", "aider"]
VARIABLES = ("HOME", "XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME")
STDIN = "-"


def index(cli: Cli) -> int:
    """Print what an agent is given of MEMORY.md at the start of a session.

    Example: oxide-ctl memory index
    """
    answer = cli.client.memory_index(cli.path)
    cli.out.answer(answer, lambda: notes.index(answer))
    return EXIT_DONE


def context(
    cli: Cli,
    *,
    agent: Annotated[Agent, typer.Option("--agent", help="whose session it is")] = "claude",
    file: Annotated[
        str | None, typer.Option("--file", metavar="PATH", help="and what it gets when it reads this file")
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="generate the file that opencode and aider can be told to read")
    ] = False,
) -> int:
    """Print what an agent gets when a session starts here: every file, its size, what was cut.

    Example: oxide-ctl memory context --agent codex
    """
    environ = {name: os.environ[name] for name in VARIABLES if os.environ.get(name)}
    named = cli.absolute(file) if file is not None else None
    answer = cli.client.memory_context(cli.path, agent, file=named, write=write, environ=environ)
    cli.out.answer(answer, lambda: notes.context(answer, verbose=cli.out.verbose))
    return EXIT_DONE


def topics(cli: Cli) -> int:
    """List the topics, each a file that is read when it is needed.

    Example: oxide-ctl memory topics
    """
    answer = cli.client.memory_topics(cli.path)
    cli.out.answer(answer, lambda: notes.topics(answer["items"]))
    return EXIT_DONE


def read(
    cli: Cli,
    *,
    name: Annotated[str, typer.Argument(metavar="NAME", help="MEMORY.md or a topic")],
    at: Annotated[int | None, typer.Option("--at", min=0, metavar="VERSION", help="as it stood then")] = None,
    raw: Annotated[bool, typer.Option("--raw", help="with the secrets in it")] = False,
) -> int:
    """Print a file of the memory; secrets are left out. --json has the hash that --if-hash takes.

    Example: oxide-ctl memory read debugging.md
    """
    answer = cli.client.memory_read(cli.path, name, version=at, raw=raw)
    if cli.out.as_json:
        cli.out.answer(answer, str)
    else:
        cli.out.raw(answer["text"].encode("utf-8", "surrogateescape"))
    cli.out.note(answer["cut"])
    if answer["redacted"]:
        cli.out.note(f"{count(answer['redacted'], 'secret')} left out; --raw shows all")
    return EXIT_DONE


def save(
    cli: Cli,
    *,
    name: Annotated[str, typer.Argument(metavar="NAME", help="a topic, such as debugging.md")],
    text: Annotated[str, typer.Option("--text", metavar="TEXT", help="default: standard input")] = STDIN,
    title: Annotated[str | None, typer.Option("--title", metavar="TEXT", help="of its line in the index")] = None,
    description: Annotated[
        str | None, typer.Option("--description", metavar="TEXT", help="the rest of that line")
    ] = None,
    section: Annotated[
        str | None, typer.Option("--section", metavar="TEXT", help="the heading that the line comes under")
    ] = None,
    if_hash: Annotated[
        str | None, typer.Option("--if-hash", metavar="HASH", help="of what was read; default: there is none yet")
    ] = None,
) -> int:
    """Let a topic hold a text, and the index a line that leads to it.

    Example: oxide-ctl memory save debugging.md --text 'run make debug first'
    """
    body = _typed(text)
    answer = cli.client.memory_save(
        cli.path, name, body, title=title, description=description, section=section, if_hash=if_hash
    )
    return _written(cli, answer)


def edit(
    cli: Cli,
    *,
    name: Annotated[str, typer.Argument(metavar="NAME", help="MEMORY.md or a topic")],
    replace: Annotated[
        str | None, typer.Option("--replace", metavar="TEXT", help="a text that stands there once, with --with")
    ] = None,
    replacement: Annotated[str | None, typer.Option("--with", metavar="TEXT", help="what takes its place")] = None,
    insert: Annotated[
        int | None, typer.Option("--insert", min=0, metavar="LINE", help="behind this line, with --text; 0 is the top")
    ] = None,
    text: Annotated[str | None, typer.Option("--text", metavar="TEXT", help="what is inserted")] = None,
    append: Annotated[str | None, typer.Option("--append", metavar="TEXT", help="at the end")] = None,
    if_hash: Annotated[str | None, typer.Option("--if-hash", metavar="HASH", help="of what was read")] = None,
) -> int:
    """Change a part of a file: replace a text, insert behind a line, or append.

    Example: oxide-ctl memory edit debugging.md --append 'see run.md'
    """
    change: dict[str, Any] = {"append": append} if append is not None else {}
    change |= {"old": replace, "text": replacement or ""} if replace is not None else {}
    change |= {"line": insert, "text": text or ""} if insert is not None else {}
    if sum(value is not None for value in (append, replace, insert)) != 1:
        raise UsageError("one of --replace, --insert and --append is needed")
    return _written(cli, cli.client.memory_edit(cli.path, name, change, if_hash=if_hash))


def delete(
    cli: Cli,
    *,
    name: Annotated[str, typer.Argument(metavar="NAME", help="which file")],
    if_hash: Annotated[str | None, typer.Option("--if-hash", metavar="HASH", help="of what was read")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False,
) -> int:
    """Move a file to the trash and take its line out of the index; `memory revert` brings it back.

    Example: oxide-ctl memory delete debugging.md --yes
    """
    if not yes:
        found = cli.client.memory_read(cli.path, name)
        need_yes(cli.out, f"move {name} to the trash?")
        if_hash = if_hash or found["hash"]
    return _written(cli, cli.client.memory_delete(cli.path, name, if_hash=if_hash))


def rename(
    cli: Cli,
    *,
    name: Annotated[str, typer.Argument(metavar="NAME", help="which file")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="its new name")],
    if_hash: Annotated[str | None, typer.Option("--if-hash", metavar="HASH", help="of what was read")] = None,
) -> int:
    """Give a file another name, in the index too.

    Example: oxide-ctl memory rename debugging.md howto/debugging.md
    """
    return _written(cli, cli.client.memory_rename(cli.path, name, new, if_hash=if_hash))


def search(
    cli: Cli,
    *,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="words that all have to stand there")],
    limit: Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="at most N (default 20)")] = None,
) -> int:
    """List the files that hold every word, the best first.

    Example: oxide-ctl memory search 'release notes'
    """
    answer = cli.client.memory_search(cli.path, text, limit=limit)
    cli.out.answer(answer, lambda: notes.hits(answer["items"]))
    return EXIT_DONE


def history(
    cli: Cli,
    *,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="of one file (default: of all)")] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="at most N (default 100)")] = None,
) -> int:
    """List every version with its time and who wrote it, in which session and prompt.

    Example: oxide-ctl memory history debugging.md
    """
    answer = cli.client.memory_history(cli.path, name=name, limit=limit)
    cli.out.answer(answer, lambda: notes.versions(answer["items"]))
    cli.out.note("there are more; --limit N shows more" if "next" in answer else "")
    return EXIT_DONE


def blame(cli: Cli, *, name: Annotated[str, typer.Argument(metavar="NAME", help="which file")]) -> int:
    """Print each line of a file with the version that brought it, and who wrote that.

    Example: oxide-ctl memory blame MEMORY.md
    """
    answer = cli.client.memory_blame(cli.path, name)
    cli.out.answer(answer, lambda: notes.blame(answer))
    return EXIT_DONE


def revert(
    cli: Cli,
    *,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="which file")] = None,
    to: Annotated[
        int | None, typer.Option("--to", min=0, metavar="VERSION", help="default: before its last change")
    ] = None,
    gone: Annotated[
        bool, typer.Option("--gone", help="all files that went since (default: since the last mass deletion)")
    ] = False,
) -> int:
    """Bring a file back to what it was, as a new version: that can be taken back the same way.

    Example: oxide-ctl memory revert debugging.md
    """
    if (name is None) is not gone:
        raise UsageError("one of NAME and --gone is needed", hint="`oxide-ctl memory history` lists what there was")
    answer = cli.client.memory_revert(cli.path, name=name, version=to, gone=gone)
    cli.out.answer(answer, lambda: notes.reverted(answer))
    return EXIT_PARTIAL if answer["left"] else EXIT_DONE


def promote(
    cli: Cli,
    *,
    source: Annotated[
        str | None, typer.Option("--from", metavar="WORKTREE", help="its root or id (default: the one you are in)")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only say what would become of each topic")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False,
) -> int:
    """Make the notes that a worktree has of its own the project's; `status` lists those that nobody reads any more.

    Example: oxide-ctl memory promote --from ../app-feature --dry-run
    """
    named = source if source is None or source.isdecimal() else cli.absolute(source)
    if dry_run or not yes:
        plan = cli.client.memory_promote(cli.path, worktree=named, dry_run=True)
        if dry_run:
            cli.out.answer(plan, lambda: notes.promoted(plan))
            return EXIT_DONE
        need_terminal(cli.out, PLAN_HINT)
        cli.out.show(notes.promoted(plan))
        need_yes(cli.out, "make these the project's?")
        # what was agreed to, though another directory may stand at the root by now
        named = plan["worktree"]
    answer = cli.client.memory_promote(cli.path, worktree=named)
    cli.out.answer(answer, lambda: notes.promoted(answer))
    return EXIT_PARTIAL if any(item["became"] == "refused" for item in answer["items"]) else EXIT_DONE


def lint(cli: Cli) -> int:
    """Look for what is wrong with the notes; exit status 1 where something is lost or given away.

    Example: oxide-ctl memory lint
    """
    found = cli.client.memory_lint(cli.path)
    answer: dict[str, Any] = {**found, "ok": not found["errors"]}
    if found["errors"]:
        first = next(item["hint"] for item in found["items"] if item["error"])
        answer["error"] = {
            "kind": FailedError.kind,
            "message": f"{count(found['errors'], 'error')} found",
            "hint": first,
        }
    cli.out.answer(answer, lambda: notes.lint(found))
    return EXIT_FAILED if found["errors"] else EXIT_DONE


def _typed(text: str) -> str:
    if text != STDIN:
        # a last line without its end runs into whatever the next writer appends
        return text if text.endswith("\n") or not text else text + "\n"
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError("no text was given", hint="--text TEXT, or the text on standard input")
    try:
        return sys.stdin.buffer.read().decode("utf-8", "surrogateescape")
    except (OSError, ValueError) as error:  # a descriptor that is closed, or open for writing alone
        raise FailedError(f"standard input cannot be read: {error}", hint="--text TEXT") from error


def _written(cli: Cli, answer: MemoryWritten) -> int:
    cli.out.answer(answer, lambda: notes.written(answer))
    return EXIT_DONE
