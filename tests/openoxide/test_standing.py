"""A path that leads elsewhere is noticed, and whoever waits for that is told."""

from __future__ import annotations

import pytest

from openoxide.errors import FailedError
from openoxide.standing import Standing


def replaced(path):
    path.rename(path.with_name("aside"))
    path.mkdir()


def reached_by_another_link(path):
    aside = path.rename(path.with_name("aside"))
    path.symlink_to(aside)


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "home"
    (folder / "blobs").mkdir(parents=True)
    return folder


@pytest.mark.parametrize(
    ("change", "holds"),
    [
        pytest.param(lambda folder: (folder / "new").touch(), True, id="a new file"),
        pytest.param(reached_by_another_link, True, id="the same folder by a link"),
        pytest.param(lambda folder: folder.rename(folder.with_name("away")), False, id="moved"),
        pytest.param(replaced, False, id="replaced"),
        pytest.param(lambda folder: replaced(folder / "blobs"), False, id="a folder in it replaced"),
        pytest.param(lambda folder: (folder / "blobs").rmdir(), False, id="a folder in it gone"),
    ],
)
def test_what_a_path_leads_to_is_what_counts(folder, change, holds):
    told = []
    standing = Standing([folder, folder / "blobs"], lambda: told.append(True))
    standing.require()

    change(folder)

    assert (standing.leads(folder) and standing.leads(folder / "blobs")) is holds
    assert not standing.leads(folder / "new"), "it was not one of them"
    assert standing.holds() is holds
    assert bool(told) is not holds
    if not holds:
        with pytest.raises(FailedError, match="home was moved, or something in it was"):
            standing.require()
