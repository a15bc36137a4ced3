"""Every key of ``config.toml``: what it takes, and why one would turn it. ``docs/configuration.md`` has the same in a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

DAY_MS = 86_400_000
MOST_DAYS = 36_500  # beyond a hundred years a time is no date any more
MOST_ITEMS, LONGEST_ITEM = 1_000, 4_096
UNITS: Mapping[str, Mapping[str, int]] = {
    "ms": {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000},
    "days": {"d": 1, "w": 7},
    "bytes": {
        "b": 1,
        **{f"{letter}b": 1000**power for power, letter in enumerate("kmgt", 1)},
        **{f"{letter}ib": 1024**power for power, letter in enumerate("kmgt", 1)},
    },
}
"""What may stand behind a number of a key, by the word that the key ends in; and how many of its unit that is."""


class Knob(NamedTuple):
    """``least`` and ``most`` are in the key's unit, of a list the number of items. ``zero``: what 0 means where it is
    taken besides. ``whole``: it is one for the whole home, and no project has its own. ``words``: it is one of them, and
    no number.
    """

    least: int
    most: int
    why: str
    zero: str = ""
    whole: bool = False
    words: tuple[str, ...] = ()

    def takes(self, number: int) -> bool:
        """Whether ``number`` is allowed."""
        return self.least <= number <= self.most or (number == 0 and bool(self.zero))


# a bound is where a value can only be a mistake: in the unit, or in the number of zeros
KNOBS: Mapping[str, Knob] = {
    "capture.max_file_bytes": Knob(
        1_024, 1 << 40, "a larger file is left out, and listed as such: a disk image or a dump would fill the store"
    ),
    "capture.ignored_file_bytes": Knob(
        0, 1 << 40, "a larger file is left out where git ignores it: it can be made again, a small one may be `.env`"
    ),
    "capture.ignored_tree_files": Knob(
        0, 1_000_000, "how many files an ignored folder may bring along: the rest is most likely a build's"
    ),
    "capture.quiet_ms": Knob(
        50, 3_600_000, "a checkpoint is sealed when nothing has changed for so long: longer makes fewer of them"
    ),
    "capture.max_interval_ms": Knob(
        1_000, DAY_MS, "a burst that never ends is sealed after so long all the same, so that no more can be lost"
    ),
    "capture.full_pass_ms": Knob(
        10_000,
        DAY_MS,
        "how often the whole tree is compared with its record: it finds what no event tells, and costs a walk",
    ),
    "capture.extra_skip": Knob(
        0, MOST_ITEMS, "patterns as in .gitignore that are left out besides: what is large and never missed"
    ),
    "retention.ttl_days": Knob(
        1,
        MOST_DAYS,
        "how long a checkpoint that is not pinned is promised to be kept; a change holds for those sealed from then on",
        zero="for ever",
    ),
    "retention.trash_days": Knob(0, 3_650, "how long what was forgotten can be taken back; its bytes count until then"),
    "retention.quota_bytes": Knob(
        1_000_000,
        10**15,
        "what one project may take, trash included: over it the oldest go first, and never the floor",
        zero="no limit",
    ),
    "retention.total_quota_bytes": Knob(
        1_000_000, 10**15, "what all projects together may take", zero="no limit", whole=True
    ),
    "retention.min_free_bytes": Knob(
        0,
        10**14,
        "how much of the disk the history leaves to others: by default it breaks no promise for somebody else's files",
        whole=True,
    ),
    "retention.thin.all_days": Knob(
        0, MOST_DAYS, "every automatic checkpoint is kept for so long: what somebody asked for is never thinned"
    ),
    "retention.thin.hourly_days": Knob(
        0, MOST_DAYS, "then one an hour for so long, and one a day after: old ones are looked for by the day"
    ),
    "memory.worktrees": Knob(
        0,
        0,
        "one memory for all worktrees of a project, one for each, or one for each on top of the project's until it is"
        " promoted: what is noted on a branch may hold there alone",
        words=("shared", "separate", "staged"),
    ),
}


def spelled(key: str, value: int | str | tuple[str, ...]) -> str:
    """``value`` in the largest unit that holds it exactly, as `config set` takes it: ``100MiB``, ``2s``, ``30d``. Of
    a list its items. Pure.
    """
    if isinstance(value, tuple):
        return " ".join(value)
    if isinstance(value, str):
        return value
    units = {name: factor for name, factor in UNITS.get(key.rpartition("_")[2], {}).items() if name != "w"}
    fitting = [name for name, factor in units.items() if value and value % factor == 0]
    if not fitting:
        return str(value)
    unit = max(fitting, key=units.__getitem__)
    return f"{value // units[unit]}{unit.upper().replace('IB', 'iB') if unit.endswith('b') else unit}"


def size(size_bytes: int) -> str:
    """``340 B``, ``1.2 KiB``: as people read it."""
    if size_bytes < 1024:
        return f"{size_bytes} B"
    amount, unit = size_bytes / 1024, "KiB"
    for larger in ("MiB", "GiB", "TiB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{amount:.1f} {unit}"


def allowed(key: str) -> str:
    """What ``key`` takes, in words: ``a whole number of ms from 50 to 3600000 (50ms to 1h)``."""
    knob = KNOBS[key]
    if key == "capture.extra_skip":
        return f"a list of up to {knob.most} patterns of one line"
    if knob.words:
        return f"one of {', '.join(knob.words)}"
    unit = key.rpartition("_")[2]
    zero = f", or 0 ({knob.zero})" if knob.zero else ""
    spelling = f" ({spelled(key, knob.least)} to {spelled(key, knob.most)})" if unit in ("bytes", "ms") else ""
    return f"a whole number of {unit} from {knob.least} to {knob.most}{spelling}{zero}"
