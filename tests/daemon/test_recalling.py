"""``history``: against what the test itself wrote."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from openoxide.errors import NotFoundError, UsageError
from tests.kit import FakeClock
from tests.kit.box import Box

NEEDLE = b"the line that vanished"
TEXT = NEEDLE.decode()


@pytest.fixture
def box(tmp_path):
    """A watched project with one file; checkpoint 1."""
    clock = FakeClock()
    with Box(tmp_path, clock=clock) as box:
        write(box, "a", b"1\n")
        box.watch()
        yield box


def write(box, path, content):
    target = os.path.join(os.fsencode(box.root), os.fsencode(path))
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with open(target, "wb") as file:
        file.write(content)


def seal(box):
    box.clock.advance(1_000)
    return box.checkpoint()


def file(box, path="a", **options):
    return box.call("history", file=str(box.root / path), **options)


def deleted(box, **options):
    return box.call("history", deleted=True, **options)["items"]


def search(box, text=TEXT, **options):
    return box.call("history", search=text, **options)


def held(moment):
    return moment["checkpoint"]["number"] if moment and moment["checkpoint"] else None


def record(box):
    """A recording without a checkpoint: what a diff against now does."""
    box.call("diff", a="last")


class TestVersions:
    def test_each_version_with_its_time_size_and_checkpoint(self, box):
        first = box.call("show", checkpoint="1")
        write(box, "a", b"two\n")
        second = seal(box)
        seal(box)
        (box.root / "a").unlink()
        third = seal(box)

        items = file(box)["items"]

        assert [item["status"] for item in items] == ["D", "M", "A"]
        assert [held(item) for item in items] == [third["number"], second["number"], 1]
        assert [item["at"] for item in items] == [c["created_at"] for c in (third, second, first)]
        assert [item["state"] and item["state"]["size_bytes"] for item in items] == [None, 4, 2]
        assert items[1]["state"].keys() >= {"kind", "mode", "size_bytes", "hash"}
        assert {(item["path"], item["writer"], item["certainty"]) for item in items} == {("a", None, "unknown")}
        assert [item["seq"] for item in items] == sorted((item["seq"] for item in items), reverse=True)

    def test_a_version_that_no_checkpoint_holds_says_so(self, box):
        write(box, "a", b"between\n")
        record(box)
        write(box, "a", b"after\n")
        sealed = seal(box)

        newest, between, _ = file(box)["items"]

        assert (held(newest), held(between)) == (sealed["number"], None)
        assert between["at"] == sealed["created_at"]

    def test_what_stands_there_now_is_part_of_it(self, box):
        write(box, "a", b"just now\n")

        newest = file(box)["items"][0]

        assert (newest["state"]["size_bytes"], newest["at"], newest["checkpoint"]) == (9, None, None)

    def test_a_forgotten_checkpoint_is_not_named_but_tells_the_time(self, box):
        write(box, "a", b"two\n")
        gone = seal(box)
        write(box, "a", b"three\n")
        seal(box)
        box.call("forget", checkpoints=[str(gone["number"])])

        item = file(box)["items"][1]

        assert (item["checkpoint"], item["at"]) == (None, gone["created_at"])

    def test_the_writer_is_told(self, box):
        window = {"agent": "codex", "session": "s1", "prompt": "p1"}
        box.call("turn_begin", **window)
        write(box, "a", b"by codex\n")
        box.call("turn_end", **window)
        box.rewind("1", scope="all")

        back, by_codex, _ = file(box)["items"]

        assert (by_codex["certainty"], by_codex["writer"]) == ("likely", "codex/s1")
        assert (back["certainty"], back["writer"]) == ("operation", "operation")

    @pytest.mark.parametrize("limit", [1, 2, 3, 7, 8])
    def test_pages_together_are_the_whole(self, box, limit):
        for number in range(6):
            write(box, "a", b"%d\n" % number)
            seal(box) if number % 2 else record(box)
        whole = file(box)["items"]

        pages, cursor = [], None
        while cursor is not None or not pages:
            page = file(box, limit=limit, **({"cursor": cursor} if cursor else {}))
            pages.append(page["items"])
            cursor = page.get("next")

        assert [item for page in pages for item in page] == whole
        assert all(len(page) == limit for page in pages[:-1])

    def test_what_is_not_recorded_comes_with_its_reason(self, box):
        write(box, ".oxideignore", b"a\n")
        seal(box)

        newest = file(box)["items"][0]

        assert (newest["status"], newest["state"], newest["reason"]) == ("D", None, "oxideignore")

    @pytest.mark.parametrize(
        ("request_fields", "error"),
        [
            ({"file": "nothing"}, NotFoundError),
            ({"file": "/etc/passwd"}, UsageError),
            ({"file": "a", "cursor": "x"}, UsageError),
            ({"file": "a", "cursor": "9" * 30}, UsageError),
            ({"file": "a", "limit": 0}, UsageError),
            ({"file": "a", "deleted": True}, UsageError),
            ({"deleted": True, "paths": ["never"]}, NotFoundError),
            ({"search": "x", "paths": [".."]}, UsageError),
            ({}, UsageError),
        ],
    )
    def test_what_cannot_be_asked_is_refused(self, box, request_fields, error):
        with pytest.raises(error):
            box.call("history", **request_fields)

    @pytest.mark.parametrize("name", [b"\xff\xfe", b"line\nbreak", b" ", b"-rf"])
    def test_names_are_bytes(self, box, name):
        write(box, name, b"x")
        seal(box)

        items = box.call("history", file=os.fsdecode(os.path.join(os.fsencode(box.root), name)))["items"]

        assert [item["status"] for item in items] == ["A"]


class TestDeleted:
    def test_what_vanished_with_the_checkpoint_that_holds_it_last(self, box):
        write(box, "dir/b", b"bee\n")
        seal(box)
        last = seal(box)
        shutil.rmtree(box.root / "dir")
        gone = seal(box)

        items = deleted(box)

        assert {item["path"] for item in items} == {"dir", "dir/b"}
        (b,) = [item for item in items if item["path"] == "dir/b"]
        assert (b["status"], held(b), b["at"], b["state"]["size_bytes"]) == ("D", last["number"], gone["created_at"], 4)
        assert box.call("cat", checkpoint=b["checkpoint"]["id"], file=str(box.root / "dir/b")) == b"bee\n"

    @pytest.mark.parametrize(
        "name", [b"two words", b"it's", b"-n", b"new\nline", b"caf\xe9", b"caf\xc3\xa9", b"back\\slash\n'"]
    )
    def test_the_hint_is_what_a_shell_takes_for_the_name(self, box, name):
        write(box, name, b"x")
        seal(box)
        os.unlink(os.path.join(os.fsencode(box.root), name))
        seal(box)
        hint = box.call("history", deleted=True)["hint"]
        word = hint[hint.index(" -- ") + 4 : hint.index("` brings")]
        said = subprocess.run(["bash", "-c", f"printf %s {word}"], capture_output=True, check=True).stdout
        assert said == name

    def test_what_was_edited_and_deleted_before_a_seal_is_had_in_an_older_version(self, box):
        write(box, "a", b"never sealed\n")
        record(box)
        (box.root / "a").unlink()
        seal(box)

        answer = box.call("history", deleted=True)

        (item,) = answer["items"]
        assert (item["checkpoint"], item["last_sealed"]["number"]) == (None, 1)
        assert answer["hint"] == "`oxide-ctl rewind 1 -- a` brings an older version of the newest one back"

    def test_what_never_was_sealed_is_in_no_checkpoint_at_all(self, box):
        write(box, "b", b"never sealed\n")
        record(box)
        (box.root / "b").unlink()
        seal(box)

        answer = box.call("history", deleted=True)

        (item,) = answer["items"]
        assert (item["checkpoint"], item["last_sealed"]) == (None, None)
        assert "hint" not in answer

    @pytest.mark.parametrize(
        ("narrowed", "brought"),
        [([], "lib"), (["lib"], "lib"), (["lib/deep"], "lib/deep"), (["lib/deep/1", "lib/deep/2"], "lib/deep/2")],
    )
    def test_a_folder_that_is_gone_is_brought_back_as_a_whole(self, box, narrowed, brought):
        for name in ("lib/deep/1", "lib/deep/2"):
            write(box, name, b"-")
        number = seal(box)["number"]
        shutil.rmtree(box.root / "lib")
        seal(box)

        hint = box.call("history", deleted=True, paths=[str(box.root / path) for path in narrowed])["hint"]

        assert hint.startswith(f"`oxide-ctl rewind {number} -- {brought}` brings")
        box.rewind(number, paths=[str(box.root / brought)])
        assert (box.root / "lib/deep/2").exists()

    def test_a_file_whose_folder_still_stands_is_brought_back_alone(self, box):
        for name in ("lib/1", "lib/2"):
            write(box, name, b"-")
        seal(box)
        (box.root / "lib/1").unlink()
        seal(box)

        assert " -- lib/1` brings the newest one back" in box.call("history", deleted=True)["hint"]

    def test_what_came_back_did_not_vanish(self, box):
        (box.root / "a").unlink()
        seal(box)
        assert [item["path"] for item in deleted(box)] == ["a"]
        write(box, "a", b"again\n")
        seal(box)
        assert deleted(box) == []

    def test_what_only_a_rule_left_out_did_not_vanish(self, box):
        write(box, ".oxideignore", b"a\n")
        seal(box)
        assert deleted(box) == []
        (box.root / "a").unlink()
        (item,) = [item for item in (seal(box), deleted(box))[1] if item["path"] == "a"]
        assert (held(item), item["state"]["size_bytes"]) == (1, 2)

    def test_paths_narrow_it_and_pages_go_on(self, box):
        for name in ("x/1", "x/2", "x/3", "xy"):
            write(box, name, b"-")
        seal(box)
        for name in ("x/1", "x/2", "x/3", "xy"):
            (box.root / name).unlink()
            seal(box)

        assert [item["path"] for item in deleted(box, paths=[str(box.root / "x")])] == ["x/3", "x/2", "x/1"]
        page = box.call("history", deleted=True, limit=3)
        rest = box.call("history", deleted=True, limit=3, cursor=page["next"])
        assert [item["path"] for item in [*page["items"], *rest["items"]]] == ["xy", "x/3", "x/2", "x/1"]
        assert "next" not in rest


class TestSearch:
    def test_when_did_this_line_vanish(self, box):
        write(box, "src/a.py", b"begin\n" + NEEDLE + b"\nend\n")
        came = seal(box)
        write(box, "src/a.py", b"longer\nbegin\n" + NEEDLE + b"\nend\n")
        last = seal(box)
        window = {"agent": "codex", "session": "s1", "prompt": "p1"}
        box.call("turn_begin", **window)
        write(box, "src/a.py", b"begin\nend\n")
        box.call("turn_end", **window)
        gone = seal(box)

        answer = search(box)

        (item,) = answer["items"]
        assert (item["path"], item["versions"]) == ("src/a.py", 2)
        assert (held(item["first"]), item["first"]["at"]) == (came["number"], came["created_at"])
        assert box.call("cat", checkpoint=str(held(item["last"])), file=str(box.root / "src/a.py")).count(NEEDLE) == 1
        assert held(item["last"]) >= last["number"]
        assert held(item["vanished"]) <= gone["number"]
        assert item["vanished"]["writer"] == "codex/s1"
        assert answer["damaged"] == answer["binary"] == 0

    def test_it_is_still_there_or_came_back(self, box):
        for content in (NEEDLE, b"gone", NEEDLE + b"!"):
            write(box, "a", content)
            seal(box)

        first, second = search(box)["items"]

        assert first["vanished"]["seq"] < second["first"]["seq"]
        assert second["vanished"] is None
        assert second["first"] == second["last"]

    def test_a_deleted_file_lost_its_text(self, box):
        write(box, "b", NEEDLE)
        seal(box)
        (box.root / "b").unlink()
        gone = seal(box)

        (item,) = search(box)["items"]

        assert held(item["vanished"]) == gone["number"]

    def test_binary_files_only_when_asked_for(self, box):
        write(box, "b", b"\0\1" + NEEDLE)
        seal(box)

        assert (search(box)["items"], search(box)["binary"]) == ([], 1)
        assert [item["path"] for item in search(box, binary=True)["items"]] == ["b"]

    def test_what_is_not_recorded_any_more_did_not_lose_its_text(self, box):
        write(box, "b", NEEDLE)
        write(box, "c", NEEDLE)
        seal(box)
        write(box, ".oxideignore", b"b\n")
        write(box, "c", b"\0" + NEEDLE)
        hidden = seal(box)

        skipped, binary = search(box)["items"]

        assert (skipped["reason"], held(skipped["vanished"])) == ("oxideignore", hidden["number"])
        assert (binary["reason"], binary["vanished"]) == ("not_searched", None)
        assert held(binary["last"]) == hidden["number"] - 1

    def test_the_same_content_is_read_once(self, box):
        for name in ("b", "c", "d/e"):
            write(box, name, NEEDLE)
        seal(box)

        answer = search(box)

        assert [item["path"] for item in answer["items"]] == ["b", "c", "d/e"]
        assert answer["searched"] == 2

    @pytest.mark.parametrize("size", [5 << 20, 300_000])
    def test_large_files_are_searched_too(self, box, size):
        write(box, "b", os.urandom(size // 2).hex().encode() + NEEDLE + b"x")
        seal(box)
        assert [item["path"] for item in search(box)["items"]] == ["b"]

    def test_pages_and_paths(self, box):
        for number in range(5):
            write(box, f"d/{number}", NEEDLE + b"%d" % number)
        write(box, "e", NEEDLE)
        seal(box)

        page = search(box, limit=4)
        rest = search(box, limit=4, cursor=page["next"])

        assert [item["path"] for item in [*page["items"], *rest["items"]]] == [*(f"d/{n}" for n in range(5)), "e"]
        assert "next" not in rest
        assert len(search(box, paths=[str(box.root / "d")])["items"]) == 5
        assert search(box, paths=[str(box.root / "d")])["searched"] == 5

    def test_more_paths_and_contents_than_a_page(self, box):
        for number in range(1_100):
            write(box, f"many/{number:04d}", NEEDLE + b"%d" % (number % 250))
        seal(box)

        answer = search(box)

        assert [item["path"] for item in answer["items"]] == [f"many/{number:04d}" for number in range(1_100)]
        steps = [step for step in box.progress if step["stage"] == "searching"]
        assert [step["done"] for step in steps] == [100, 200, 251]
        assert {step["total"] for step in steps} == {251}

    def test_damage_is_counted_and_nothing_is_claimed_of_it(self, box):
        write(box, "b", os.urandom(5 << 20).hex().encode() + NEEDLE)
        seal(box)
        (big,) = (box.home.blobs / "big").iterdir()
        data = bytearray(big.read_bytes())
        data[len(data) // 2] ^= 0xFF
        big.write_bytes(data)

        answer = search(box)

        assert (answer["items"], answer["damaged"]) == ([], 1)

    def test_bytes_that_are_no_text_can_be_searched(self, box):
        write(box, "b", b"caf\xe9")
        seal(box)
        assert [item["path"] for item in search(box, os.fsdecode(b"f\xe9"))["items"]] == ["b"]


def test_the_history_of_what_is_not_watched_any_more_can_be_read(box):
    box.call("unwatch")
    write(box, "a", b"nobody sees this\n")

    assert len(file(box)["items"]) == 1
    assert search(box, "1")["items"][0]["path"] == "a"


def test_a_root_that_is_gone_has_a_history(box, tmp_path):
    box.root.rename(tmp_path / "elsewhere")

    assert len(file(box)["items"]) == 1


def test_what_is_proposed_for_a_root_that_is_gone_is_spelled_from_there(box, tmp_path):
    write(box, "src/b", b"x")
    seal(box)
    (box.root / "src/b").unlink()
    seal(box)
    box.root.rename(tmp_path / "elsewhere")

    assert "-- src/b`" in box.call("history", deleted=True)["hint"]
