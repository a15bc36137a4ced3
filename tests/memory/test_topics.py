"""What a memory keeps: each write says what was read before, the index goes along, and nothing that was written is lost."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from openoxide.errors import ConflictError, NotFoundError, RefusedError, UsageError
from openoxide.memory.editing import ABSENT, Append, Insert, Replace
from openoxide.memory.trash import TRASH_MS, Reason
from openoxide.memory.upkeep import Did, Told
from tests.memory.kit import memory_in, place

TOKEN = "ghp_" + "a1B2" * 9


@pytest.fixture
def memory(tmp_path):
    return memory_in(tmp_path)


def index_of(memory):
    return memory.directory.index().data.decode()


def test_a_topic_is_saved_with_its_line(memory):
    text = "---\ndescription: how to find faults\nmetadata:\n  type: project\n---\n# Debugging\n\nUse gdb.\n"

    written = memory.save("debugging.md", text, expect=ABSENT)

    assert index_of(memory) == "- [Debugging](debugging.md) — how to find faults\n"
    assert [change.did for change in written.index] == [Did.ADDED]
    (topic,) = memory.topics()
    assert (topic.name, topic.title, topic.description, topic.kind) == (
        "debugging.md",
        "Debugging",
        "how to find faults",
        "project",
    )
    reading = memory.read("debugging.md")
    assert (reading.text, reading.sha256) == (text, written.sha256)


def test_a_line_that_is_told_is_taken(memory):
    memory.save("a.md", "# A\n", expect=ABSENT, told=Told("My title", "my hook"), section="Build")

    assert index_of(memory) == "## Build\n\n- [My title](a.md) — my hook\n"


def test_saving_again_brings_the_line_up_to_date(memory):
    first = memory.save("a.md", "# A\n\nold words\n", expect=ABSENT)

    second = memory.save("a.md", "# A\n\nnew words\n", expect=first.sha256)

    assert index_of(memory) == "- [A](a.md) — new words\n"
    assert [change.did for change in second.index] == [Did.UPDATED]


def test_a_change_that_was_not_read_is_not_overwritten(memory):
    first = memory.save("a.md", "first text\n", expect=ABSENT)
    place(memory.directory.path, "a.md", "what the shell wrote\n")

    with pytest.raises(ConflictError, match="was changed since it was read") as caught:
        memory.save("a.md", "second text\n", expect=first.sha256)

    assert memory.read("a.md").text == "what the shell wrote\n"
    (kept,) = memory.trash()
    assert (kept.id, kept.name, kept.reason) == (caught.value.details["kept"], "a.md", Reason.REFUSED)
    memory.restore(kept.id, "a.md", to="mine.md")
    assert memory.read("mine.md").text == "second text\n"


@pytest.mark.parametrize("expect", [ABSENT, "0" * 64])
def test_what_is_there_already_needs_no_precondition(memory, expect):
    memory.save("a.md", "text\n", expect=ABSENT)

    assert memory.save("a.md", "text\n", expect=expect).changed is False


def test_edits(memory):
    memory.save("a.md", "# A\n\none\n", expect=ABSENT)

    memory.edit("a.md", Replace(old="one", new="two"))
    memory.edit("a.md", Insert(line=2, text="zero"))
    memory.edit("a.md", Append(text="three"))

    assert memory.read("a.md").text == "# A\n\nzero\ntwo\nthree\n"
    assert index_of(memory) == "- [A](a.md) — one\n", "a line is not worded anew by an edit"


def test_an_append_makes_the_topic_and_its_line(memory):
    written = memory.edit("a.md", Append(text="- one fact"))

    assert (memory.read("a.md").text, index_of(memory)) == ("- one fact\n", "- [A](a.md) — one fact\n")
    assert [change.did for change in written.index] == [Did.ADDED]


def test_the_index_itself_can_be_edited(memory):
    memory.edit("MEMORY.md", Append(text="- a note"))

    assert index_of(memory) == "- a note\n"


@pytest.mark.parametrize("edit", [Replace(old="x", new="y"), Insert(line=0, text="x")])
def test_only_an_append_makes_a_file(memory, edit):
    with pytest.raises(NotFoundError, match=r"the memory has no a\.md"):
        memory.edit("a.md", edit)


def test_an_edit_may_ask_for_the_rest_to_be_as_it_was(memory):
    first = memory.save("a.md", "one\n", expect=ABSENT)
    place(memory.directory.path, "a.md", "one\nmore\n")

    with pytest.raises(ConflictError):
        memory.edit("a.md", Append(text="two"), expect=first.sha256)
    memory.edit("a.md", Append(text="two"))

    assert memory.read("a.md").text == "one\nmore\ntwo\n"


def test_a_deleted_topic_is_in_the_trash_and_comes_back(memory):
    first = memory.save("api/a.md", "# A\n", expect=ABSENT)

    written = memory.delete("api/a.md", expect=first.sha256)

    assert index_of(memory) == ""
    assert [(one.id, one.name, one.reason) for one in memory.trash()] == [(written.trash, "api/a.md", Reason.DELETED)]
    memory.restore(written.trash, "api/a.md")
    assert memory.read("api/a.md").text == "# A\n"
    assert index_of(memory) == "- [A](api/a.md)\n"
    assert memory.trash() == []


def test_what_was_changed_is_not_deleted(memory):
    first = memory.save("a.md", "one\n", expect=ABSENT)
    place(memory.directory.path, "a.md", "two\n")

    with pytest.raises(ConflictError):
        memory.delete("a.md", expect=first.sha256)

    assert memory.read("a.md").text == "two\n"


def test_trash_is_kept_for_thirty_days(memory):
    first = memory.save("a.md", "one\n", expect=ABSENT)
    memory.delete("a.md", expect=first.sha256)

    memory._clock.advance(TRASH_MS)
    assert memory.empty_trash() == 0
    memory._clock.advance(1)
    assert memory.empty_trash() == 1
    assert memory.trash() == []


def test_a_restore_takes_no_name_that_is_taken(memory):
    first = memory.save("a.md", "one\n", expect=ABSENT)
    trash = memory.delete("a.md", expect=first.sha256).trash
    memory.save("a.md", "two\n", expect=ABSENT)

    with pytest.raises(ConflictError):
        memory.restore(trash, "a.md")
    for bad in ("../x", "1800000000000-deleted-0/../..", ""):
        with pytest.raises(RefusedError):
            memory.restore(bad, "a.md")


def test_a_rename_takes_its_line_along(memory):
    first = memory.save("a.md", "# A\n", expect=ABSENT)
    memory.save("b.md", "# B\n", expect=ABSENT)

    memory.rename("a.md", "api/c.md", expect=first.sha256)

    assert sorted(memory.directory.listing().names) == ["MEMORY.md", "api/c.md", "b.md"]
    assert index_of(memory) == "- [B](b.md)\n- [A](api/c.md)\n"
    with pytest.raises(ConflictError, match=r"b\.md is there already"):
        memory.rename("api/c.md", "b.md")
    with pytest.raises(NotFoundError):
        memory.rename("a.md", "d.md")


def test_a_folder_is_renamed_and_deleted_as_a_whole(memory):
    memory.save("api/a.md", "# A\n", expect=ABSENT)
    memory.save("api/b.md", "# B\n", expect=ABSENT)

    memory.rename("api", "http")
    assert index_of(memory) == "- [B](http/b.md)\n- [A](http/a.md)\n"
    memory.delete_folder("http")

    assert memory.topics() == []
    assert index_of(memory) == ""
    assert sorted(one.name for one in memory.trash()) == ["http/a.md", "http/b.md"]


def test_case_alone_makes_no_other_file(memory):
    first = memory.save("debugging.md", "one\n", expect=ABSENT)

    with pytest.raises(RefusedError, match=r"debugging\.md where case does not count"):
        memory.save("Debugging.md", "two\n", expect=ABSENT)
    memory.rename("debugging.md", "Debugging.md", expect=first.sha256)
    assert memory.topics()[0].name == "Debugging.md"


@pytest.mark.parametrize("name", ["MEMORY.md", "notes.txt", "../a.md"])
def test_only_a_topic_is_saved_as_one(memory, name):
    with pytest.raises(RefusedError):
        memory.save(name, "text\n", expect=ABSENT)


def test_a_copy_of_another_topic_is_refused(memory):
    memory.save("a.md", "# A\n\nThe build needs Java 21.\n", expect=ABSENT)

    with pytest.raises(RefusedError, match=r"a\.md says that already"):
        memory.save("b.md", "---\nname: b\n---\n# a\n\n- The build  needs java 21.\n", expect=ABSENT)
    with pytest.raises(RefusedError, match="in line 3"):
        memory.edit("a.md", Append(text="* the build needs Java 21."))
    memory.edit("a.md", Append(text="* the tests need Java 21."))

    assert [topic.name for topic in memory.topics()] == ["a.md"]


@settings(max_examples=40)
@given(lines=st.lists(st.text("ab\u00df\u0130\u00e9 ", min_size=1), min_size=1), marks=st.data())
def test_a_copy_is_refused_however_it_is_marked_spaced_and_cased(tmp_path_factory, lines, marks):
    memory = memory_in(tmp_path_factory.mktemp("home"))
    first = "the first\n" + "\n".join(lines)
    mark = st.sampled_from(["", "- ", "* ", "1. ", "## ", "> "])
    copy = "\n".join(marks.draw(mark) + line.replace(" ", "  ").swapcase() for line in first.split("\n"))
    memory.save("a.md", first, expect=ABSENT)
    # where case does not come back (a dotted capital I) it is another text
    assume(first.casefold().split() == first.swapcase().casefold().split())

    with pytest.raises(RefusedError, match=r"a\.md says that already"):
        memory.save("b.md", copy + " " * max(0, len(first) - len(copy)), expect=ABSENT)


def test_a_secret_is_not_written(memory):
    memory.save("a.md", "one\n", expect=ABSENT)

    with pytest.raises(RefusedError, match="GitHub token in line 2") as caught:
        memory.edit("a.md", Append(text=f"the token is {TOKEN}"))
    with pytest.raises(RefusedError):
        memory.save("b.md", TOKEN, expect=ABSENT)

    assert TOKEN not in caught.value.message + str(caught.value.details)
    assert b"ghp_" not in b"".join(path.read_bytes() for path in memory.directory.home.rglob("*") if path.is_file())


def test_a_secret_of_somebody_else_does_not_stop_an_edit(memory):
    memory.save("a.md", "one\n", expect=ABSENT)
    place(memory.directory.path, "a.md", f"{TOKEN}\n")

    memory.edit("a.md", Append(text="two"))

    assert memory.read("a.md").text == f"{TOKEN}\ntwo\n"


def test_values_of_an_env_file_are_secrets(tmp_path):
    memory = memory_in(tmp_path, known=("correct-horse",))

    with pytest.raises(RefusedError, match=r"value of an .env file"):
        memory.save("a.md", "say correct-horse\n", expect=ABSENT)


def test_a_cut_copy_is_written_told_and_can_be_taken_back(memory):
    whole = "# Rules\n" + "".join(f"- rule {n}\n" for n in range(100))
    first = memory.save("a.md", whole, expect=ABSENT)

    written = memory.save("a.md", "# Rules\n[rest unchanged]\n", expect=first.sha256)

    assert len(written.advice) == 2
    assert "shrank" in written.advice[0]
    memory.restore(written.trash, "a.md", to="before.md")
    assert memory.read("before.md").text == whole


def test_too_long_an_index_is_written_and_told(memory):
    place(memory.directory.path, "MEMORY.md", "- [X](x.md)\n" * 200)

    written = memory.save("a.md", "# A\n", expect=ABSENT)

    assert written.changed
    assert "agents get nothing from line 201 of 201 on" in written.advice[0]
    assert "Move what stands in lines" in written.advice[0]
    place(memory.directory.path, "MEMORY.md", "- [X](x.md)\n" * 190)
    assert "nearly full" in memory.edit("a.md", Append(text="more")).advice[0]


def test_upkeep_is_told_and_done(memory):
    place(memory.directory.path, "b.md", "# B\n\nwords\n")
    place(memory.directory.path, "data.json", "{}")
    place(memory.directory.path, "MEMORY.md", "- [G](gone.md)\n- [D](data.json)\n")

    changes = memory.maintain()

    assert {(change.did, change.name) for change in changes} == {(Did.MARKED, "gone.md"), (Did.ADDED, "b.md")}
    assert index_of(memory) == "- [B](b.md) — words\n- [G](gone.md) (file gone)\n- [D](data.json)\n"
    assert memory.maintain() == []
    assert memory.suggestions() == []


def test_a_missing_topic_is_answered_with_those_like_it(memory):
    memory.save("debugging-tips.md", "one\n", expect=ABSENT)

    with pytest.raises(NotFoundError) as caught:
        memory.read("debugging.md")

    assert caught.value.hint == "there is debugging-tips.md"


def test_a_line_that_is_not_there_is_said(memory):
    memory.save("a.md", "one\n", expect=ABSENT)

    with pytest.raises(UsageError, match="it has 1"):
        memory.edit("a.md", Insert(line=5, text="x"))


def test_a_folder_is_not_moved_to_where_its_files_would_lie_too_deep(memory):
    memory.save("a/b/c.md", "one\n", expect=ABSENT)

    with pytest.raises(RefusedError, match="more than 5 parts"):
        memory.rename("a", "v/w/x/y")
    assert memory.read("a/b/c.md").text == "one\n"


def test_a_name_of_another_normal_form_is_read_and_not_doubled(memory):
    memory.save("a.md", "one\n", expect=ABSENT)
    place(memory.directory.path, "u\u0308ber.md", "two\n")

    assert memory.read("u\u0308ber.md").text == "two\n"
    with pytest.raises(RefusedError, match="where case does not count"):
        memory.save("\u00fcber.md", "three\n", expect=ABSENT)
