"""Contents are blanked in a pack's file: name and bytes go, all others stay where they are, to the byte."""

from __future__ import annotations

import os

import pytest

from openoxide.checkpoints.frames import compressor, decompress, lay_out, make_delta, make_frame, spans
from openoxide.checkpoints.hashing import blob_hash
from openoxide.checkpoints.packs import pack_name
from openoxide.checkpoints.scrub import aside_holding, blank_aside, mask, packs_holding, residue

TEXTS = tuple(b"".join(b"%d: line %x\n" % (number, line**5) for line in range(200)) for number in range(5))
NOISE = tuple(os.urandom(3_000) for _ in range(5))


def named(contents):
    return [(blob_hash(content), content) for content in contents]


@pytest.fixture(name="folder")
def _folder(tmp_path):
    (tmp_path / "big").mkdir()
    return tmp_path


def written(folder, name, frames, rest=b""):
    data, places = lay_out(frames, 1, 0)
    (folder / name).write_bytes(data + rest)
    return places


@pytest.mark.parametrize("contents", [TEXTS, NOISE])
@pytest.mark.parametrize("gone", [(0,), (2,), (1, 4), (0, 1, 2, 3, 4)])
def test_one_of_a_frame_is_blanked_and_the_others_stay_in_their_places(folder, contents, gone):
    frames = [make_frame(named(contents), compressor()), make_frame(named([b"another frame"]), compressor())]
    places = written(folder, "00000001.pack.aside", frames)
    file = folder / "00000001.pack.aside"
    names = {blob_hash(contents[number]) for number in gone}
    before = file.read_bytes()
    assert aside_holding(folder, names) == [file]

    blank_aside(file, names)

    data = file.read_bytes()
    assert (len(data), aside_holding(folder, names)) == (len(before), [])
    assert data[places[1].offset :] == before[places[1].offset :]
    whole = decompress(data[places[0].offset :][: places[0].stored], places[0], places[0].raw) if len(gone) < 5 else b""
    inner = 0
    for number, content in enumerate(contents):
        if number not in gone:
            assert whole[inner : inner + len(content)] == content
        else:
            assert content not in whole + data
        inner += len(content)
    assert [*(folder / "big").iterdir()] == []


def test_what_does_not_fit_without_it_goes_too(folder):
    """A run of zeros in the middle of one that took a few bytes."""
    places = written(
        folder, "00000001.pack.aside", [make_frame(named([b"a" * 999, b"a" * 998, b"a" * 997]), compressor())]
    )
    file = folder / "00000001.pack.aside"
    blank_aside(file, {blob_hash(b"a" * 998)})
    assert file.read_bytes()[places[0].offset :] == bytes(places[0].stored)
    assert blob_hash(b"a" * 999) in file.read_bytes()


def test_what_differs_from_another_frame_is_blanked_as_a_whole(folder):
    base = make_frame(named([TEXTS[0]]), compressor())
    delta = make_delta(named([TEXTS[0] + b"edited", TEXTS[0] + b"again"]), base, TEXTS[0])
    written(folder, "00000001.pack.aside", [base, delta])
    file = folder / "00000001.pack.aside"
    blank_aside(file, {blob_hash(TEXTS[0] + b"edited")})
    with file.open("rb") as source:
        first, second = spans(source.fileno())
        assert os.pread(source.fileno(), first.end - first.payload, first.payload) == base.payload
        assert not any(os.pread(source.fileno(), second.end - second.payload, second.payload))
    assert [name for name, _ in second.names] == [bytes(32), blob_hash(TEXTS[0] + b"again")]


@pytest.mark.parametrize("rest", [b"", b"OXF1", b"torn" * 100, b"OXF1" + blob_hash(TEXTS[0]) + b"half"])
def test_packs_that_hold_a_name_or_end_in_nobody_knows_what(folder, rest):
    frames = [make_frame(named(TEXTS[:2]), compressor()), make_frame(named([TEXTS[2]]), compressor())]
    written(folder, pack_name(1), frames, rest)
    written(folder, pack_name(2), frames[1:])
    assert packs_holding(folder, {blob_hash(TEXTS[1])}) == {1}
    assert packs_holding(folder, {blob_hash(TEXTS[2])}) == {1, 2}
    assert packs_holding(folder, {blob_hash(NOISE[0])}) == ({1} if rest else set())
    assert packs_holding(folder, ()) == set()


def test_a_name_is_found_wherever_it_stands_and_never_through_a_link(tmp_path):
    home, needle = tmp_path / "home", b"n" * 32
    (home / "logs").mkdir(parents=True)
    (home / "logs" / "log").write_bytes(b"." * ((1 << 20) - 7) + needle + b"." * 10 + needle)
    (home / "link").symlink_to(home / "logs" / "log")
    (home / "skipped").write_bytes(needle)
    assert residue(home, [needle], [home / "skipped"]) == [home / "logs" / "log"]
    mask(home / "logs" / "log", [needle])
    assert residue(home, [needle], [home / "skipped"]) == []
    assert (home / "logs" / "log").read_bytes() == b"." * ((1 << 20) - 7) + b"x" * 32 + b"." * 10 + b"x" * 32
