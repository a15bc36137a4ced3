"""What is wrong with a memory, for people and for CI. Pure: texts and the answer to "is this file there" come in as values.

Everything is a finding with a place and what to do; nothing is changed.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from openoxide.memory import secrets
from openoxide.memory.editing import doubts, normalised
from openoxide.memory.index import MOST_LINES, MOST_UNITS, Entry, entries, load_index
from openoxide.memory.markdown import outside_code, page_of
from openoxide.memory.naming import INDEX
from openoxide.memory.standing import NOTHING_KNOWN, Standing, Vouched, line_text
from openoxide.memory.upkeep import LONG_ENTRY_UNITS, suggested

NEAR = 0.8  # of the words of two notes
MOST_COMPARED = 2_000
MOST_TOPIC_UNITS = 100_000

_WORD = re.compile(r"\w+")
_CODE = re.compile(r"`([^`\n]{1,300})`")
_FILE = re.compile(
    r"(?:\.{0,2}/)?(?:[\w.@+-]+/)*[\w.@+-]+\.[A-Za-z][A-Za-z0-9]{0,7}(?::\d+)?"
    r"|(?:[\w.@+-]+/)+"
)
_SYMBOL = re.compile(r"(?:\w+(?:\.|::|#|->))*([^\W\d]\w{2,})\(\)")
_ORDERS = re.compile(
    r"(?i)\bignore (?:all |any |the )?(?:previous|prior|above|earlier) (?:instructions|rules|prompts)"
    r"|\bdo not (?:tell|inform) (?:this to )?the user|\bwithout (?:asking|telling) the user"
    r"|\b(?:you (?:must|should) )?always run\b|\b(?:curl|wget) [^\n]{0,200}\|\s*(?:sudo )?(?:ba|z)?sh"
)
# what a user may well note, and a page that was read has no business to say
_STRANGERS_ORDERS = re.compile(
    r"(?i)\byou (?:must|have to) (?:always |never )?\w+"
    r"|\b(?:run|execute) (?:this|the following) (?:command|script)\b"
    r"|\b(?:ignore|disregard|forget|override) (?:all |any |the |your )*(?:instructions|rules|guidelines)\b"
    r"|\bfrom now on,? (?:you|always|never)\b"
    r"|\b(?:important|system)(?: note)?:\s*(?:you|always|never)\b"
    r"|\b(?:send|upload|post) [^\n]{0,80}\bhttps?://"
)


class Kind(str, Enum):
    """What can be wrong. Errors lose something or give something away; the rest is advice."""

    OVER = "over"
    NEARLY_FULL = "nearly_full"
    DEAD_LINK = "dead_link"
    UNLISTED = "unlisted"
    LISTED_TWICE = "listed_twice"
    DUPLICATE = "duplicate"
    NEAR_DUPLICATE = "near_duplicate"
    STALE = "stale"
    HIDDEN = "hidden"
    SECRET = "secret"  # noqa: S105 - the name of a finding
    LONG = "long"
    PLACEHOLDER = "placeholder"
    ORDERS = "orders"
    STRANGERS = "strangers"
    REFUSED = "refused"


ERRORS = frozenset(
    {Kind.OVER, Kind.DEAD_LINK, Kind.HIDDEN, Kind.SECRET, Kind.PLACEHOLDER, Kind.ORDERS, Kind.STRANGERS, Kind.REFUSED}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing, in line ``line`` (from 1; 0: all of the file) of a file."""

    kind: Kind
    file: str
    line: int
    text: str
    hint: str

    @property
    def is_error(self) -> bool:
        return self.kind in ERRORS


def lint(
    index: str,
    topics: Mapping[str, str],
    *,
    exists: Callable[[str], bool] | None = None,
    unnamed: Callable[[Collection[str]], Collection[str]] = lambda _: (),
    known: Collection[str] = (),
    refused: Mapping[str, str] | None = None,
    vouched: Vouched = NOTHING_KNOWN,
) -> list[Finding]:
    """All findings, by file and line. ``exists`` answers for a path below the project; without it no file is stale.
    ``unnamed``: which of some symbols stand nowhere in it. ``vouched``: what is known of who wrote it; of whom nothing is known
    is not doubted.
    """
    found = [*_index(index, topics), *_duplicates(index, topics)]
    for name, text in {INDEX: index, **topics}.items():
        found += [*_secrets(name, text, known), *_hidden(name, text), *_texts(name, text)]
        found += _stale(name, text, exists) if exists else []
        found += _of_strangers(name, text, vouched)
    found += _forgotten({INDEX: index, **topics}, unnamed)
    found += [
        Finding(kind=Kind.REFUSED, file=name, line=0, text=reason, hint="it is not read; move it away")
        for name, reason in (refused or {}).items()
    ]
    return sorted(found, key=lambda one: (one.file != INDEX, one.file, one.line, one.kind.value))


def _index(index: str, topics: Mapping[str, str]) -> Iterator[Finding]:
    loaded = load_index(index.encode("utf-8", "surrogatepass"))
    known = entries(index)
    if loaded.first_cut:
        lines = ", ".join(str(move.line) for move in suggested(index))
        text = f"line {loaded.first_cut} is the first that no agent gets: {loaded.first_cut_text.strip()[:80]}"
        yield Finding(
            kind=Kind.OVER, file=INDEX, line=loaded.first_cut, text=text, hint=f"move lines {lines} into topics"
        )
    elif loaded.is_near:
        text = f"{loaded.lines} of {MOST_LINES} lines, {loaded.units} of {MOST_UNITS} characters are used"
        yield Finding(kind=Kind.NEARLY_FULL, file=INDEX, line=0, text=text, hint="move detail into topics")
    first: dict[str, Entry] = {}
    for entry in known:
        if entry.name not in topics:
            hint = "take the line out, or write the topic"
            yield Finding(kind=Kind.DEAD_LINK, file=INDEX, line=entry.line, text=f"{entry.name} is gone", hint=hint)
        elif entry.name in first:
            text = f"{entry.name} is in line {first[entry.name].line} too"
            yield Finding(kind=Kind.LISTED_TWICE, file=INDEX, line=entry.line, text=text, hint="take one of them out")
        first.setdefault(entry.name, entry)
    for name in sorted(topics.keys() - first.keys()):
        yield Finding(kind=Kind.UNLISTED, file=name, line=0, text="the index has no line for it", hint="add one")
    for at, line in enumerate(index.split("\n"), 1):
        if len(line) > LONG_ENTRY_UNITS:
            text = f"{len(line)} characters in one line"
            yield Finding(
                kind=Kind.LONG, file=INDEX, line=at, text=text, hint="keep a line short, and the detail in a topic"
            )


def _duplicates(index: str, topics: Mapping[str, str]) -> Iterator[Finding]:
    """Bodies that say the same; lines of the index, and topics' first words, that nearly do."""
    bodies: dict[str, str] = {}
    for name, text in topics.items():
        said = normalised(page_of(text).body)
        if said and said in bodies:
            same = f"{bodies[said]} says the same"
            yield Finding(kind=Kind.DUPLICATE, file=name, line=0, text=same, hint="delete one of them")
        bodies.setdefault(said, name)
    notes = [(INDEX, entry.line, f"{entry.title} {entry.hook}") for entry in entries(index)] + [
        (name, at, line) for name, text in topics.items() for at, line in _notes(text)
    ]
    yield from _alike(notes[:MOST_COMPARED])


def _notes(text: str) -> list[tuple[int, str]]:
    """The items of the lists in a topic."""
    plain = outside_code(text).split("\n")
    return [(at, line) for at, line in enumerate(plain, 1) if re.match(r"\s*[-*+]\s", line)]


def _alike(notes: list[tuple[str, int, str]]) -> Iterator[Finding]:
    words = [frozenset(_WORD.findall(note[2].casefold())) for note in notes]
    holding: dict[str, list[int]] = {}
    for at, mine in enumerate(words):
        # few words are alike by chance
        if len(mine) < 4:
            continue
        # two sets that share four fifths share one of the rarest words of either (prefix filtering)
        ranked = sorted(mine, key=lambda word: (len(holding.get(word, ())), word))
        others = {other for word in ranked[: len(mine) - int(NEAR * len(mine)) + 1] for other in holding.get(word, ())}
        for other in sorted(others):
            share = len(mine & words[other]) / len(mine | words[other])
            if share >= NEAR:
                (file, line, _), (there, there_line, _) = notes[at], notes[other]
                kind = Kind.DUPLICATE if mine == words[other] else Kind.NEAR_DUPLICATE
                text = (
                    f"line {there_line} of {there} says {'the same' if kind is Kind.DUPLICATE else 'nearly the same'}"
                )
                yield Finding(kind=kind, file=file, line=line, text=text, hint="keep one, if they mean the same")
                break
        for word in mine:
            holding.setdefault(word, []).append(at)


def _secrets(name: str, text: str, known: Collection[str]) -> Iterator[Finding]:
    for one in secrets.find(text, known):
        hint = (
            "take it out and replace it where it is used; agents are given [redacted]; `oxide-ctl purge --memory` with the"
            " note's name then removes every version that held it"
        )
        yield Finding(kind=Kind.SECRET, file=name, line=one.line, text=f"a {one.kind}: {one.shown}", hint=hint)


def hidden_in(text: str) -> list[tuple[int, str]]:
    """Line and code point of each character that cannot be seen; those that join an emoji together are seen by it."""
    found: list[tuple[int, str]] = []
    line, done = 1, 0
    for at in _unseen(text):
        line, done = line + text.count("\n", done, at), at
        found.append((line, f"U+{ord(text[at]):04X}"))
    return found


def _unseen(text: str) -> Iterator[int]:
    for at, char in enumerate(text):
        if char in "\n\t" or unicodedata.category(char) not in ("Cc", "Cf", "Co", "Cs", "Zl", "Zp"):
            continue
        ends_line = char == "\r" and text[at + 1 : at + 2] == "\n"
        if not ends_line and not (char == "\ufeff" and at == 0) and not _joins(text, at):
            yield at


def _joins(text: str, at: int) -> bool:
    around = (text[at - 1 : at] if at else "", text[at + 1 : at + 2])
    return text[at] == "\u200d" and all(
        one and (unicodedata.category(one) == "So" or one == "\ufe0f") for one in around
    )


def visible(text: str) -> str:
    """``text`` with its unseen characters spelled out, as ``<U+200B>``."""
    unseen = set(_unseen(text))
    return "".join(f"<U+{ord(char):04X}>" if at in unseen else char for at, char in enumerate(text))


def _hidden(name: str, text: str) -> Iterator[Finding]:
    lines: dict[int, list[str]] = {}
    for line, point in hidden_in(text):
        lines.setdefault(line, []).append(point)
    for line, points in lines.items():
        shown = ", ".join(dict.fromkeys(points))
        hint = "look at the line with `cat -A`; who wrote it may not have wanted it to be seen"
        yield Finding(
            kind=Kind.HIDDEN, file=name, line=line, text=f"characters that cannot be seen: {shown}", hint=hint
        )


def _texts(name: str, text: str) -> Iterator[Finding]:
    for doubt in doubts("", text):
        yield Finding(kind=Kind.PLACEHOLDER, file=name, line=0, text=doubt, hint="bring the earlier version back")
    for match in _ORDERS.finditer(outside_code(text)):
        line = text.count("\n", 0, match.start()) + 1
        hint = "a note states what is so; make sure that you, and no document that was read, wanted this"
        yield Finding(kind=Kind.ORDERS, file=name, line=line, text=f"it gives orders: {match[0]}", hint=hint)
    if name != INDEX and len(text) > MOST_TOPIC_UNITS:
        text = f"{len(text)} characters"
        yield Finding(kind=Kind.LONG, file=name, line=0, text=text, hint="divide it into topics")


def _of_strangers(name: str, text: str, vouched: Vouched) -> Iterator[Finding]:
    """Orders in what was written after reading what nobody vouches for, and was not verified since."""
    known, plain = text.split("\n"), outside_code(text)
    for match in _STRANGERS_ORDERS.finditer(plain):
        line = plain.count("\n", 0, match.start()) + 1
        one = vouched.lines.get(line_text(known[line - 1])) if name == INDEX else vouched.files.get(name)
        if one is not None and one.tainted and one.standing is not Standing.VERIFIED:
            said = f"it gives orders, and was written after {one.tainted} had read untrusted content: {match[0][:80]}"
            hint = f"read it: `oxide-ctl memory verify {name}`, or `memory review --reject {name}`"
            yield Finding(kind=Kind.STRANGERS, file=name, line=line, text=said, hint=hint)


def named_files(text: str) -> list[tuple[int, str]]:
    """Line and path of each file of the project that a text names in code marks."""
    found: list[tuple[int, str]] = []
    for match in _CODE.finditer(text):
        path = match[1].strip()
        if _FILE.fullmatch(path) and ("/" in path or re.search(r"\.[a-z]{1,4}(?::\d+)?$", path)):
            plain = re.sub(r":\d+$", "", path).removeprefix("./")
            # a way out, or a name with the form of a version or of an attribute, is nobody's file
            if not plain.startswith(("/", "..")) and not re.fullmatch(r"[\d.]+\w?", plain):
                found.append((text.count("\n", 0, match.start()) + 1, plain))
    return found


def _stale(name: str, text: str, exists: Callable[[str], bool]) -> Iterator[Finding]:
    for line, path in named_files(text):
        if "/" in path and not exists(path):
            hint = "check whether the note still holds"
            yield Finding(kind=Kind.STALE, file=name, line=line, text=f"{path} is gone", hint=hint)


def named_symbols(text: str) -> list[tuple[int, str]]:
    """Line and name of each function that a text names in code marks, as ``name()`` or ``Class.name()``."""
    spans = ((match.start(), _SYMBOL.fullmatch(match[1].strip())) for match in _CODE.finditer(text))
    return [(text.count("\n", 0, at) + 1, symbol[1]) for at, symbol in spans if symbol]


def _forgotten(texts: Mapping[str, str], unnamed: Callable[[Collection[str]], Collection[str]]) -> Iterator[Finding]:
    named = {name: symbols for name, text in texts.items() if (symbols := named_symbols(text))}
    # asked once for all: each answer takes a look at every file of the project
    gone = unnamed({symbol for symbols in named.values() for _, symbol in symbols}) if named else ()
    for name, symbols in named.items():
        for line, symbol in symbols:
            if symbol in gone:
                hint = "check whether the note still holds"
                text = f"{symbol}() stands nowhere in the project"
                yield Finding(kind=Kind.STALE, file=name, line=line, text=text, hint=hint)
