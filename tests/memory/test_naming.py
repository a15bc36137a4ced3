"""A name that could mean another file than the one that is written is refused before the system sees it."""

from __future__ import annotations

from pathlib import PurePosixPath as P

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openoxide.errors import RefusedError
from openoxide.memory.naming import clash, id_of, moved, parts_of, refused_root, topic_of

ATTACKS = {
    "a way up": "../secrets.md",
    "a way up in the middle": "a/../../b.md",
    "a way up at the end": "a/..",
    "here": "./a.md",
    "absolute": "/etc/passwd",
    "two slashes": "//etc/passwd",
    "an empty part": "a//b.md",
    "nothing": "",
    "a slash alone": "/",
    "a backslash": "..\\..\\windows.md",
    "an encoded way up": "%2e%2e%2fpasswd.md",
    "an encoded way up in capitals": "%2E%2E/passwd.md",
    "encoded twice": "%252e%252e%252fpasswd.md",
    "an encoded NUL": "a%00.md",
    "NUL": "a.md\0.png",
    "a line feed": "a\n.md",
    "an escape": "a\x1b[2J.md",
    "text that runs backwards": "a\u202edm.exe",
    "a zero width space": "a\u200b.md",
    "a tag character": "a\U000e0041.md",
    "half a pair": "a\ud800.md",
    "a hidden file": ".git/config.md",
    "a home": "~/.ssh/id_rsa.md",
    "an option": "-rf.md",
    "a drive": "C:evil.md",
    "a stream": "a.md::$DATA",
    "wide dots": "\uff0e\uff0e/a.md",
    "a wide slash": "a\uff0fb.md",
    "one character that is two dots": "\u2025/a.md",
    "the index in other letters": "memory.md",
    "the index in mixed letters": "Memory.MD",
    "a device": "CON.md",
    "a device without a name behind it": "nul",
    "a numbered device": "Com1.txt.md",
    "a dot at the end": "a.md.",
    "a space at the end": "a.md ",
    "a pattern": "*.md",
    "a part that is too long": "x" * 201 + ".md",
    "a name that is too long": "/".join(["x" * 199] * 5) + "/" + "y" * 100,
    "too many parts": "a/b/c/d/e/f.md",
}


@pytest.mark.parametrize("name", ATTACKS.values(), ids=ATTACKS)
def test_an_attack_is_refused(name):
    with pytest.raises(RefusedError, match="is no name for a memory file") as caught:
        parts_of(name)

    assert caught.value.message.isprintable(), "what is shown cannot act on a terminal"


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("debugging.md", ("debugging.md",)),
        ("api/http errors.md", ("api", "http errors.md")),
        ("MEMORY.md", ("MEMORY.md",)),
        ("a/memory.md", ("a", "memory.md")),
        ("über-uns.md", ("über-uns.md",)),
        ("u\u0308ber.md", ("u\u0308ber.md",)),
        ("日本語.md", ("日本語.md",)),
        ("notes.v2.txt", ("notes.v2.txt",)),
        ("100%.md", ("100%.md",)),
        ("consul.md", ("consul.md",)),
        ("x" * 197 + ".md", ("x" * 197 + ".md",)),
    ],
)
def test_an_ordinary_name_is_taken(name, parts):
    assert parts_of(name) == parts


@pytest.mark.parametrize("name", ["MEMORY.md", "notes.txt", "folder", "a.MD"])
def test_a_topic_ends_in_md_and_is_not_the_index(name):
    with pytest.raises(RefusedError):
        topic_of(name)


@given(st.text())
def test_what_is_taken_stays_below_the_folder(name):
    try:
        parts = parts_of(name)
    except RefusedError:
        return
    assert parts
    assert all(part not in ("", ".", "..") and "/" not in part and "\0" not in part for part in parts)


@pytest.mark.parametrize(
    ("name", "others", "same"),
    [
        ("Debugging.md", ["debugging.md"], "debugging.md"),
        ("straße.md", ["STRASSE.md"], "STRASSE.md"),
        ("debugging.md", ["debugging.md", "other.md"], ""),
        ("A/b.md", ["a/B.md"], "a/B.md"),
        ("\u00fcber.md", ["u\u0308ber.md"], "u\u0308ber.md"),
    ],
)
def test_two_names_that_one_file_system_takes_for_one_clash(name, others, same):
    assert clash(parts_of(name), others) == same


@pytest.mark.parametrize("text", ["", ".", "..", "a/b", "a\0", "x" * 65, "ü", "a b"])
def test_an_id_is_letters_and_digits(text):
    with pytest.raises(RefusedError):
        id_of(text)


@pytest.mark.parametrize(
    ("root", "reason"),
    [
        ("/", "it is the root of the file system"),
        ("/home", "your home directory is inside it"),
        ("/home/user", "it is your home directory"),
        ("/home/user2", ""),
        ("/home/user/project", ""),
        ("/tmp", "it is a folder for temporary files"),
        ("/var/tmp", "it is a folder for temporary files"),
        ("/tmp/work/project", ""),
    ],
)
def test_a_root_that_everything_shares_has_no_memory(root, reason):
    assert refused_root(P(root), P("/home/user"), [P("/tmp"), P("/var/tmp")]) == reason


@pytest.mark.parametrize(
    ("path", "after"),
    [("/p/app", "/q/new"), ("/p/app/sub", "/q/new/sub"), ("/p/app2", "/p/app2"), ("/p/app2/app", "/p/app2/app")],
)
def test_a_moved_project_takes_no_namesake_along(path, after):
    assert moved(P(path), P("/p/app"), P("/q/new")) == P(after)
