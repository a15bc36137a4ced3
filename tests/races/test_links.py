"""Links that lead out of a project, planted at each step of a rewind and swapped in beside it: they lead nowhere."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest

from openoxide.errors import InterruptedOperationError, OpenOxideError
from tests.kit import diff_trees, tree_of
from tests.races.canary import Site, print_of, stored_secrets
from tests.races.interleaving import ALL, EXCHANGING, at, meanwhile, never
from tests.races.looking import STAGING
from tests.races.programs import Program, rounds

SWAPPED = ("src", "src/deep", "conf", "conf/k", "src/deep/x", "top")


@pytest.mark.parametrize(
    "touch",
    [
        pytest.param(lambda c: (c / "src/a").write_bytes(b"canary"), id="bytes"),
        pytest.param(lambda c: (c / "src/a").read_bytes() and (c / "src/a").chmod(0o600), id="mode"),
        pytest.param(lambda c: ((c / "conf/new").touch(), (c / "conf/new").unlink()), id="made and removed"),
        pytest.param(lambda c: os.link(c / "empty", c.parent / "twin"), id="hard link"),
    ],
)
def test_the_print_of_the_canary_shows_every_touch(site, touch):
    before = print_of(site.canary)
    touch(site.canary)
    assert print_of(site.canary) != before


Plant = Callable[[Site], None]


def parent(site: Site) -> None:
    site.replace("src", site.canary / "src")


def nested_parent(site: Site) -> None:
    site.replace("src/deep", site.canary / "src/deep")


def relative_parent(site: Site) -> None:
    site.replace("conf", "../canary/conf")


def final(site: Site) -> None:
    site.replace("src/a", site.canary / "src/a")


def final_to_a_folder(site: Site) -> None:
    site.replace("top", site.canary / "conf")


def folder_to_a_file(site: Site) -> None:
    site.replace("conf", site.canary / "conf/k")


def dangling(site: Site) -> None:
    """A write through it would make a file."""
    site.replace("conf/k", site.canary / "conf/not-there")


def two_steps(site: Site) -> None:
    hop = site.parking / f"hop.{os.urandom(4).hex()}"
    hop.symlink_to(site.canary / "src")
    site.replace("src", hop)


def two_steps_within(site: Site) -> None:
    """The first link is harmless, the second leads out."""
    site.replace("conf", site.canary / "conf")
    site.replace("src", "conf")


def through_proc(site: Site) -> None:
    site.replace("src", f"/proc/self/root{site.canary}/src")


def moved_out(site: Site) -> None:
    site.move_out("src")


def moved_out_and_back(site: Site) -> None:
    out = site.parking / f"conf.{os.urandom(4).hex()}"
    os.rename(site.root / "conf", out)
    os.rename(out, site.root / "conf")


def moved_into_another(site: Site) -> None:
    """What is written to the old place would now lie in another folder of the project."""
    os.rename(site.root / "src/deep", site.root / "conf/deep")


PLANTS: tuple[Plant, ...] = (
    parent, nested_parent, relative_parent, final, final_to_a_folder, folder_to_a_file, dangling, two_steps,
    two_steps_within, through_proc, moved_out, moved_out_and_back, moved_into_another,
)  # fmt: skip


@rounds(few=156, full=4_004)
def test_a_link_planted_at_any_step_leads_nowhere(site, rounds):
    before, chosen, outcomes = print_of(site.canary), random.Random(rounds), Counter()
    totals = {modules: _steps_of_a_rewind(site, modules) for modules in (ALL, EXCHANGING)}
    for number in range(rounds):
        plant, modules = PLANTS[number % len(PLANTS)], chosen.choice([*totals])
        point = chosen.randrange(1, totals[modules])
        site.edit(f"edited {number}")
        with meanwhile(partial(_quietly, plant, site), at(point), modules):
            outcomes[_rewind(site, exact=bool(number % 2))] += 1
        here = f"round {number}: {plant.__name__} at step {point} of {totals[modules]}"
        assert (print_of(site.canary), _rewound_outside(site)) == (before, []), here
        site.box.rewind(site.base, scope="all", exact=True)
        assert diff_trees(site.tree, tree_of(site.root, skip={os.fsencode(STAGING)})) == [], here
    print(f"\n{rounds} rounds over {[*totals.values()]} steps: {dict(outcomes)}")
    assert stored_secrets(site.box) == []


def _rewound_outside(site: Site) -> list[str]:
    """What was edited when its folder moved out and is not so any more."""
    found = []
    while site.moved:
        place, before = site.moved.popitem()
        edited = {path: what for path, what in before.items() if what[0] == "file" and what[3] != b"ours\n"}
        now = tree_of(place)
        found += diff_trees(edited, {path: now[path] for path in edited.keys() & now.keys()})
    return found


def _steps_of_a_rewind(site: Site, modules: tuple[str, ...]) -> int:
    site.edit("edited")
    with meanwhile(lambda: None, never, modules) as steps:
        site.box.rewind(site.base, scope="all", exact=True)
    return steps.count


def _quietly(plant: Plant, site: Site) -> None:
    with suppress(OSError):  # the rewind has just taken away what would be replaced
        plant(site)


def _rewind(site: Site, *, exact: bool) -> str:
    """What came of a rewind; one that stopped in the middle is aborted."""
    try:
        answer = site.box.rewind(site.base, scope="all", exact=exact)
    except InterruptedOperationError:
        site.box.call("settle", action="abort")
        return "interrupted"
    except OpenOxideError as error:
        return error.kind
    return "conflicts" if answer["conflicts"] else "done"


@rounds(few=144, full=6_000)
def test_links_that_are_swapped_all_the_time_lead_nowhere(site, rounds):
    before, outcomes = print_of(site.canary), Counter()
    for name in SWAPPED:
        (site.parking / name.replace("/", "+")).symlink_to(site.canary / name)
    with Program("swapper", site.root, site.parking, rounds, *SWAPPED) as swapper:
        for number in range(rounds):
            assert swapper.ask("go") == "go"
            site.edit(f"edited {number}")
            outcomes[_rewind(site, exact=bool(number % 2))] += 1
            assert swapper.ask("rest") == "rest"
            assert print_of(site.canary) == before, f"round {number}"
    site.box.rewind(site.base, scope="all", exact=True)
    print(f"\n{rounds} rounds: {dict(outcomes)}")
    assert diff_trees(site.tree, tree_of(site.root, skip={os.fsencode(STAGING)})) == []
    assert stored_secrets(site.box) == []
    assert outcomes["conflicts"] > rounds / 20, "no race"
