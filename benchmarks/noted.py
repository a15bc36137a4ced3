"""A project with a memory of so many topics and the daemon that keeps it: what the figures of a memory are taken on."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from corpus import WORDS, Corpus
from measuring import UnmeasuredError
from product import Daemon
from workshop import Case, Workshop

from openoxide.memory.index import MOST_LINES, entry_line

PARAGRAPHS, WORDS_IN_PARAGRAPH = 20, 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """``memory`` is the folder with the notes of the project at ``tree``, a copy of ``corpus``."""

    corpus: Corpus
    case: Case
    daemon: Daemon
    memory: Path

    @property
    def tree(self) -> str:
        return str(self.case.tree)


@contextmanager
def noted(workshop: Workshop, files: int, topics: int) -> Iterator[Noted]:
    """The project, recorded with all its notes; nothing is at work any more."""
    corpus = workshop.corpus(files)
    with workshop.case(corpus.root) as case, Daemon(case.folder) as daemon:
        daemon.ctl(case.tree, "-q", "watch")
        daemon.client.memory_save(str(case.tree), name_of(0), text_of(0))
        memory = Path(daemon.client.memory_index(str(case.tree))["path"])
        for number in range(topics):
            (memory / name_of(number)).write_text(text_of(number), "utf-8")
        (memory / "MEMORY.md").write_text(index_of(min(topics, MOST_LINES - 1)), "utf-8")
        daemon.client.checkpoint(str(case.tree))
        daemon.settle()
        kept = daemon.client.memory_topics(str(case.tree))["items"]
        if len(kept) != topics:
            raise UnmeasuredError(f"the memory holds {len(kept)} instead of {topics} topics")
        yield Noted(corpus=corpus, case=case, daemon=daemon, memory=memory)


def name_of(number: int) -> str:
    """The file of a topic."""
    return f"topic-{number:04}.md"


def text_of(number: int) -> str:
    """A topic of about 2 KB, the same for the same number."""
    draw = random.Random(f"topic {number}")
    lines = [f"- {' '.join(draw.choices(WORDS, k=WORDS_IN_PARAGRAPH))}" for _ in range(PARAGRAPHS)]
    return f"# Topic {number}\n\n" + "\n".join(lines) + "\n"


def index_of(lines: int) -> str:
    """A MEMORY.md of so many lines, each the line of a topic."""
    draw = random.Random("index")
    hooks = (" ".join(draw.choices(WORDS, k=WORDS_IN_PARAGRAPH // 2)) for _ in range(lines))
    return "".join(f"{entry_line(name_of(n), f'Topic {n}', hook)}\n" for n, hook in enumerate(hooks))
