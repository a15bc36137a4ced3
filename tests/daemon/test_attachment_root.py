"""What is reported when directories come and go in the root itself."""

from __future__ import annotations

import os

from openoxide.daemon.attachment import Attachment, Pruned


class Report:
    """Takes note, and makes a directory in the middle of the first report, as any program might."""

    def __init__(self, new: str) -> None:
        self.dirty: dict[bytes, bool] = {}
        self._new = new

    def mark(self, path: bytes, *, recursive: bool) -> None:
        if not self.dirty:
            os.mkdir(self._new)
        self.dirty[path] = recursive or self.dirty.get(path, False)

    def gap(self, cause: str) -> None:
        raise AssertionError(cause)

    def pruned(self, path: bytes) -> None:
        raise AssertionError(path)


def test_a_directory_that_goes_while_another_comes_leaves_the_whole_tree_alone(tmp_path):
    """Else each `rm -r build; mkdir build` in the root costs a full pass over the tree."""
    root = tmp_path / "root"
    (root / "goes").mkdir(parents=True)
    report = Report(os.fspath(root / "comes"))
    attachment = Attachment(os.fsencode(root), lambda parent, name: Pruned.NO, report)
    (root / "goes").rmdir()
    attachment.read_queued()
    attachment.read_queued()
    attachment.close()
    assert report.dirty == {b"goes": True, b"comes": True}
