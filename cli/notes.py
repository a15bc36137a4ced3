"""A project's memory as text for people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo
from typing import TYPE_CHECKING

from openoxide.cli.render import author, shortened, table
from openoxide.cli.units import count, local
from openoxide.daemon.protocol import printable
from openoxide.ids import short
from openoxide.knobs import size

if TYPE_CHECKING:
    from openoxide.daemon.protocol.memories import (
        BlameAnswer,
        ContextAnswer,
        HitItem,
        KeptNotes,
        LintAnswer,
        MarkedAnswer,
        MassDeletion,
        MemoryIndexAnswer,
        MemoryStatus,
        MemoryWritten,
        NoteVersion,
        PromotedAnswer,
        RevertedAnswer,
        ReviewItem,
        TopicItem,
    )


def index(answer: MemoryIndexAnswer) -> str:
    """What loads of it, and what had better move."""
    lines = [_text(answer["text"])] if answer["text"] else ["the index is empty"]
    lines += [printable(answer["left_out"])] if answer["left_out"] else []
    lines += [f"warning: {printable(answer['warning'])}"] if answer["warning"] else []
    lines += [f"  line {move['line']} ({move['reason']}): {printable(move['text'])}" for move in answer["moves"]]
    return "\n".join(lines)


def topics(items: Sequence[TopicItem]) -> str:
    """One line a topic."""
    # of the project unless it is said: a daemon of an earlier day does not say
    own = {i["name"] for i in items if i.get("layer") == "worktree"}
    rows = [
        (
            printable(i["name"]),
            size(i["size_bytes"]),
            *(["of this worktree" if i["name"] in own else ""] if 0 < len(own) < len(items) else []),
            _standing(i["standing"], i["tainted"]),
            printable(i["description"] or i["title"]),
        )
        for i in items
    ]
    return table(rows, right=(1,)) or "no topics"


def _standing(standing: str, tainted: str) -> str:
    return f"{standing}, after {printable(tainted)}" if tainted else standing


def review(items: Sequence[ReviewItem], zone: tzinfo | None = None) -> str:
    """One line a file that waits, and below it the lines of the index that wait along with it."""
    found: list[str] = []
    for item in items:
        when = local(item["at"], zone) if item["at"] else "not sealed yet"
        tainted = f", after {printable(item['tainted'])}" if item["tainted"] else ""
        change = f"+{item['added']} -{item['removed']}"
        found.append(f"{printable(item['name'])}  {change}  {when}  {_writer(item)}{tainted}")
        found += [f"  {printable(line)}" for line in item["lines"]]
    return "\n".join(found) or "nothing waits"


def marked(answer: MarkedAnswer) -> str:
    """What was said of which files."""
    return "\n".join(f"{answer['standing']}: {printable(name)}" for name in answer["names"]) or "nothing waits"


def hits(items: Sequence[HitItem]) -> str:
    """One line a file that fits."""
    return table([(f"{printable(i['name'])}:{i['line']}", printable(i["snippet"])) for i in items]) or "found nowhere"


def written(answer: MemoryWritten) -> str:
    """What a write did, to the file and to the index."""
    what = "gone" if not answer["hash"] else "written" if answer["changed"] else "unchanged"
    lines = [f"{what}: {printable(answer['name'])}"]
    lines += [f"  index: {change['did']} {printable(change['name'])}" for change in answer["index"]]
    lines += [f"  in the trash as {answer['trash']}"] if answer["trash"] else []
    return "\n".join([*lines, *map(printable, answer["advice"]), *map(printable, answer["notes"])])


def reverted(answer: RevertedAnswer) -> str:
    """What came back, and what did not."""
    lines = [written(one) for one in answer["written"]]
    lines += [f"left: {one['name']}  ({printable(one['reason'])})" for one in answer["left"]]
    return "\n".join(lines) or "nothing to bring back"


def promoted(answer: PromotedAnswer) -> str:
    """What became of each topic, or would."""
    words = {"added": "new", "same": "there already", "both": "lines of both", "refused": "left"}
    rows = [
        (
            words.get(item["became"], item["became"]),
            printable(item["name"]),
            _remarks(item["reason"] if item["became"] == "refused" else "", "in the trash there" * item["retired"]),
        )
        for item in answer["items"]
    ]
    head = f"{'would come from' if answer['dry_run'] else 'from'} {printable(answer['root'] or answer['path'])}"
    return "\n".join([head, *([table(rows)] if rows else ["  nothing"]), *map(printable, answer["notes"])])


def unread(item: KeptNotes) -> str:
    """Notes that nobody reads any more, and what brings them back."""
    if not item["worktree"]:
        whose = "the project's, which no worktree reads"
    else:
        why = "is gone" if item["reason"] == "gone" else "has others by memory.worktrees"
        whose = f"{printable(item['root'] or 'worktree ' + item['worktree'])} {why}"
    return f"{count(item['files'], 'file')}, {whose}; `{item['command']}`"


def versions(items: Sequence[NoteVersion], zone: tzinfo | None = None) -> str:
    """One line a version, newest first as they come."""
    return table([_row(item, zone) for item in items], right=(0,)) or "no versions"


def _row(item: NoteVersion, zone: tzinfo | None) -> tuple[str, ...]:
    return (
        str(item["version"]),
        local(item["at"], zone) if item["at"] else "not sealed yet",
        item["status"] or "?",
        f"{printable(item['name'])} ({item['reason']})" if item["reason"] else printable(item["name"]),
        _standing(item["standing"], item["tainted"]),
        _writer(item),
    )


def _writer(item: NoteVersion) -> str:
    if item["operation"]:
        return f"rewind {short(item['operation'])}"
    who = " ".join([*item["agents"], *(f"session {name}" for name in item["sessions"])])
    prompts = f", prompt {', '.join(item['prompts'])}" if item["prompts"] else ""
    return author(item["certainty"], who) + printable(prompts)


def blame(answer: BlameAnswer, zone: tzinfo | None = None) -> str:
    """Each line behind the version it comes from and who wrote that."""
    known = {item["version"]: item for item in answer["versions"]}
    rows = [
        (
            str(line["version"]),
            _at(known[line["version"]], zone),
            _writer(known[line["version"]]),
            printable(line["text"]),
        )
        for line in answer["lines"]
    ]
    return table(rows, right=(0,))


def _at(item: NoteVersion, zone: tzinfo | None) -> str:
    return local(item["at"], zone) if item["at"] else "-"


def lint(answer: LintAnswer) -> str:
    """One line a finding, errors marked."""
    lines = [
        f"{'error' if item['error'] else 'advice'}  {printable(item['name'])}:{item['line']}  {item['kind']}:"
        f" {printable(item['message'])}\n  {printable(item['hint'])}"
        for item in answer["items"]
    ]
    return "\n".join(lines) or "nothing is wrong"


def context(answer: ContextAnswer, *, verbose: bool = False) -> str:
    """Every source in the order of loading, what is left out, and the memory as it is given."""
    rows = [
        (source["level"], size(source["size_bytes"]), printable(source["path"]), _remarks(source["why"], source["cut"]))
        for source in answer["sources"]
    ]
    lines = [f"{answer['agent']} in {answer['cwd']} gets {size(answer['size_bytes'])}", table(rows, right=(1,))]
    lines += shortened(
        [f"  not {one['path']}  ({printable(one['reason'])})" for one in answer["skipped"]], verbose=verbose
    )
    memory = answer["memory"]
    if memory is not None:
        cap = f" of at most {memory['cap']}" if memory["cap"] else ""
        lines += [f"the memory, by {memory['way']}: {memory['size']} {memory['measure']}{cap}", _text(memory["text"])]
    lines += [f"written to {answer['written']}"] if "written" in answer else []
    return "\n".join(filter(None, lines))


def _remarks(*remarks: str) -> str:
    found = [printable(remark) for remark in remarks if remark]
    return f"({'; '.join(found)})" if found else ""


def status(item: MemoryStatus, zone: tzinfo | None = None) -> list[tuple[str, str]]:
    """A project's memory as fields of its status."""
    reason = f" ({item['reason']})" if item["reason"] else ""
    state = "" if item["state"] == "watching" else f", {item['state']}{reason}"
    policy = f", {item['policy']}" if item.get("policy", "shared") != "shared" else ""
    held = f"{count(item['files'], 'file')}, {size(item['bytes'])}{policy}{state}; {item['path']}"
    warning = [("index", item["warning"])] if item["warning"] else []
    gone = [("deleted", _deletion(one, zone)) for one in item["deletions"]]
    return [("notes", held), *warning, *gone]


def _deletion(item: MassDeletion, zone: tzinfo | None) -> str:
    back = f"`oxide-ctl memory revert --gone --to {item['version']}` brings them back"
    return f"{count(len(item['files']), 'note')} at once after {local(item['at'], zone)}; {back}"


def _text(text: str) -> str:
    """Several lines as they are, without what acts on a terminal."""
    return "\n".join(map(printable, text.rstrip("\n").split("\n")))
