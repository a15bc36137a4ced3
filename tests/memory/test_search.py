"""A search finds what is on the disk now, with a piece of it, for any words."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openoxide.memory.search import Search
from openoxide.memory.secrets import redact
from tests.kit import effort
from tests.memory.kit import memory_in, place

FILES = {
    "debugging.md": "# Debugging\n\nUse gdb for faults.\nThe watcher is tested with strace.\n",
    "api/http-errors.md": "---\ndescription: d\n---\n# HTTP errors\n\nA 409 means that the précondition failed.\n",
    "日本.md": "# ノート\n\nビルドには時間がかかります。\n",
    "cpp.md": '# C++\n\nc++ and covid-19, a AND b OR "c" NEAR(d) *\n',
    "MEMORY.md": "- [Debugging](debugging.md) — gdb\n",
    "data.json": '{"gdb": 1}',
}


@pytest.fixture
def folder(tmp_path):
    for name, text in FILES.items():
        place(memory_in(tmp_path).directory.path, name, text)
    return memory_in(tmp_path).directory.path


@pytest.fixture
def search(tmp_path, folder):
    found = Search(memory_in(tmp_path).directory)
    yield found
    found.close()


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("gdb", {"debugging.md", "MEMORY.md"}),
        ("GDB faults", {"debugging.md"}),
        ("strac", {"debugging.md"}),
        ("precondition", {"api/http-errors.md"}),
        ("http-errors", {"api/http-errors.md"}),
        ("時間", {"日本.md"}),
        ("ビルドには", {"日本.md"}),
        ("c++", {"cpp.md"}),
        ("covid-19", {"cpp.md"}),
        ("ebuggin", {"debugging.md", "MEMORY.md"}),
        ('"', {"cpp.md", "MEMORY.md"} - {"MEMORY.md"}),
        ("nothing of it", set()),
        ("", set()),
        ("   ", set()),
    ],
)
def test_what_is_found(search, query, names):
    assert {hit.name for hit in search.find(query)} == names


@pytest.mark.parametrize(
    "query", ["a AND b", 'a" OR "b', "NEAR(a b)", "name:gdb", "^gdb", "gdb*", "-gdb", "'; drop table topic; --"]
)
def test_no_word_of_the_query_language_means_anything(search, query):
    search.find(query)

    assert search.find("gdb")


def test_a_hit_shows_where_it_is(search):
    (hit,) = search.find("strace")

    assert (hit.name, hit.title, hit.line) == ("debugging.md", "Debugging", 4)
    assert "[strace]" in hit.snippet
    assert "[時間]" in search.find("時間")[0].snippet


def test_a_name_says_more_than_a_text(search, folder):
    place(folder, "long.md", "debugging " * 50)

    assert [hit.name for hit in search.find("debugging")][:1] == ["debugging.md"]
    assert len(search.find("debugging", limit=1)) == 1


def test_the_disk_is_the_truth(search, folder):
    assert not search.find("zebra")
    temporary = place(folder, ".new.swp", "a zebra\n")
    temporary.replace(folder / "debugging.md")
    assert [hit.name for hit in search.find("zebra")] == ["debugging.md"]
    assert not search.find("strace")

    (folder / "debugging.md").rename(folder / "renamed.md")
    assert [hit.name for hit in search.find("zebra")] == ["renamed.md"]
    (folder / "renamed.md").unlink()
    assert not search.find("zebra")


def test_what_is_to_be_hidden_is_not_found(tmp_path, folder):
    token = "ghp_" + "a1B2" * 9
    place(folder, "leak.md", f"the token is {token}\n")
    search = Search(memory_in(tmp_path).directory, redact)

    assert not search.find(token)
    assert "[redacted]" in search.find("token")[0].snippet.replace("[[", "[")
    search.close()


words = st.sampled_from(["alpha", "beta", "gamma", "delta"])
change = st.tuples(st.sampled_from(["a.md", "b.md", "c/d.md"]), st.lists(words, max_size=3), st.booleans())


@given(st.lists(change, max_size=8))
@settings(max_examples=effort(30), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_after_any_changes_it_finds_what_a_plain_look_finds(tmp_path_factory, changes):
    memory = memory_in(tmp_path_factory.mktemp("home"))
    search = Search(memory.directory)
    there: dict[str, list[str]] = {}
    for name, text, gone in changes:
        if gone and name in there:
            (memory.directory.path / name).unlink()
            del there[name]
        else:
            place(memory.directory.path, name, " ".join(text))
            there[name] = text
        for word in ("alpha", "beta"):
            assert {hit.name for hit in search.find(word)} == {n for n, text in there.items() if word in text}
    search.close()
