"""What a whole pack tells by itself: each frame whose header can be read, and the bytes in it."""

from __future__ import annotations

from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from openoxide.checkpoints.frames import Place, compressor, frames_in, lay_out, make_delta, make_frame, unpacked


def named(*contents):
    return [(blake3(data).digest(), data) for data in contents]


def found(pack):
    """``hash -> bytes`` of all that is there, as a repair looks for it."""
    contents = {}
    for header, offset in frames_in(pack):
        data = unpacked(pack, Place(1, offset, header.stored, header.raw, header.codec))
        contents |= {
            name: data[inner : inner + size]
            for name, inner, size in header.entries
            if blake3(data[inner : inner + size]).digest() == name
        }
    return contents


TEXT = b"".join(b"line %d of a text\n" % number for number in range(400))
EDITED = TEXT.replace(b"line 7 ", b"another ")


def pack_of(noise=b""):
    base = make_frame(named(TEXT), compressor())
    frames = [base, make_delta(named(EDITED), base, TEXT), make_frame(named(b"small", b"OXF1 in a text"), compressor())]
    return noise + lay_out(frames, 1, len(noise))[0]


def test_each_content_is_found_also_one_that_is_what_it_differs_in_from_another():
    contents = found(pack_of())

    assert sorted(contents.values()) == sorted([TEXT, EDITED, b"small", b"OXF1 in a text"])


@given(noise=st.binary(max_size=40) | st.just(b"OXF1") | st.just(b"OXF1" + bytes(40)))
def test_what_lies_before_hides_nothing(noise):
    assert len(found(pack_of(noise))) == 4


@given(at=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_bit_hides_what_it_is_in_and_makes_nothing_up(at, bit):
    pack = bytearray(pack_of())
    pack[int(at * len(pack))] ^= 1 << bit

    contents = found(bytes(pack))

    assert set(contents.values()) <= {TEXT, EDITED, b"small", b"OXF1 in a text"}
    # the base takes what differs from it along, and nothing takes more than that
    assert len(contents) >= 2
