"""The two parsers agree, and what the fast one is not sure of it leaves alone."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from openoxide.cli import app, catalogue, hot
from openoxide.cli.context import Call, Options
from openoxide.errors import UsageError

PLAIN = Options()


def kind(parameter: Any) -> str | tuple[str, ...]:
    if getattr(parameter, "is_flag", False):
        return hot.FLAG
    if parameter.type_descriptor.choices:
        return tuple(parameter.type_descriptor.choices)
    return {str: hot.TEXT, int: hot.NUMBER}[parameter.type_descriptor.annotation]


@pytest.mark.parametrize("name", hot.TABLE)
def test_the_fast_table_equals_what_typer_declares(name):
    parameters = app.declared(name).params
    command = hot.TABLE[name]

    assert dict(command.options) == {
        spelling: hot.Option(parameter.name, kind(parameter), required=parameter.required)
        for parameter in parameters
        if parameter.param_type_name == "option"
        for spelling in parameter.opts
    }
    assert command.positionals == tuple(
        hot.Positional(parameter.name, kind(parameter), required=parameter.required)
        for parameter in parameters
        if parameter.param_type_name == "argument"
    )
    assert command.paths == isinstance(app.declared(name), app._LeafWithPaths)


@pytest.mark.parametrize("name", hot.TABLE)
def test_numbers_are_at_least_one_for_both(name):
    numbers = [parameter for parameter in app.declared(name).params if kind(parameter) == hot.NUMBER]

    assert [parameter.min for parameter in numbers] == [1] * len(numbers)


def complete(call: Call) -> Call:
    """``call`` with the body's defaults filled in, which the fast parser leaves to Python."""
    bound = inspect.signature(catalogue.body(call.command)).bind(None, **call.arguments)
    bound.apply_defaults()
    arguments = {**bound.arguments}
    del arguments["cli"]
    if "paths" in arguments:
        arguments["paths"] = list(arguments["paths"])
    return call._replace(arguments=arguments)


FAST = [
    "watch",
    "watch a/b --dry-run --allow-broad",
    "status",
    "--json -q -v -C /some/where status",
    "status --json",
    "checkpoint",
    "checkpoint -m name --pin",
    "log --limit 5 --all --session s --since @2h",
    "log --limit=5 --session=s --since=",
    "show 42",
    "show #42",
    "show turn:-1",
    "pin last~2",
    "unpin #42",
    "name 42 good",
    "name 42 ",
    "history src/a.py --limit 3",
    "history --deleted -- src",
    "history --search=def --binary -- a b",
    "history --search def",
    "diff a",
    "diff a b --patch",
    "diff --stat a -- x y",
    "diff a -- b",
    "diff a --",
    "diff a b -- -- --json",
    "cat last~3 src/a.py",
    "rewind 42 --yes",
    "rewind 42 --dry-run --scope turn --exact --conflict overwrite --touch --code --no-memory",
    "rewind --yes 42 -- a -b",
    "rewind --yes --continue",
    "rewind --turn p --only --yes --conflict merge",
    "undo --yes",
    "undo 3 --dry-run",
    "redo --yes 2",
    "turn begin --agent a --session s --prompt p",
    "turn end --agent a --session s",
    "tool begin --agent a --session s --tool t --prompt p",
    "tool end --agent a --session s --tool t",
    "completion --checkpoints",
]


@pytest.mark.parametrize("line", FAST)
def test_both_parsers_make_the_same_call(line):
    words = hot.globals_first(line.split(" "))
    fast = hot.parse(words)
    full = app.parse(words)

    assert fast is not None
    assert isinstance(full, Call)
    assert complete(fast) == complete(full)


LEFT_TO_TYPER = [
    "",
    "--help",
    "--version",
    "-qv status",
    "-C",
    "-C -q status",
    "--jso status",
    "unwatch",
    "operations",
    "status extra",
    "status --help",
    "status -- x",
    "log --limit",
    "log --limit 0",
    "log --limit x",
    "log --limit -1",
    "log --limit 1_0",
    "log --limit ٣",
    "log --limit 99999999999",
    "log --all=yes",
    "log --sess s",
    "log --all --all",
    "checkpoint -mname",
    "checkpoint -m=name",
    "checkpoint -m -x",
    "show",
    "show 1 2",
    "show -1",
    "cat 42 -- -odd",
    "rewind 42",
    "rewind 42 --yes path",
    "rewind 42 --yes --scope everything",
    "undo",
    "undo --yes many",
    "turn",
    "turn begin --agent a --session s",
    "turn begun",
    "completion bash",
    "completion --checkpoints csh",
]


@pytest.mark.parametrize("line", LEFT_TO_TYPER)
def test_what_is_not_plain_is_left_to_typer(line):
    assert hot.parse(hot.globals_first(line.split(" ") if line else [])) is None


@pytest.mark.parametrize(
    ("line", "arguments"),
    [
        ("checkpoint -mname", {"name": "name", "pin": False}),
        ("checkpoint -m -x", {"name": "-x", "pin": False}),
        ("cat 42 -- -odd", {"checkpoint": "42", "file": "-odd"}),
        ("-qv projects", {}),
        ("unwatch --delete-history there", {"path": "there", "delete_history": True, "dry_run": False, "yes": False}),
        (
            "restore 42 --to x -- a b",
            {"checkpoint": "42", "to": "x", "force": False, "in_part": False, "paths": ["a", "b"]},
        ),
    ],
)
def test_typer_understands_the_rest(line, arguments):
    call = app.parse(hot.globals_first(line.split()))

    assert isinstance(call, Call)
    assert call.arguments == arguments


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("log --json --all", "--json log --all"),
        ("--json log", "--json log"),
        ("--json log --json", "--json log"),
        ("diff a -- --json", "diff a -- --json"),
        ("diff --json a -- --json", "--json diff a -- --json"),
        ("log", "log"),
        ("rewind turn:-1 --dry-run -v", "-v rewind turn:-1 --dry-run"),
        ("checkpoint -m name -q --json", "--json -q checkpoint -m name"),
        ("-v diff 1 -- -v", "-v diff 1 -- -v"),
    ],
)
def test_global_flags_are_accepted_up_to_a_double_hyphen(line, expected):
    assert hot.globals_first(line.split()) == expected.split()


def test_a_path_with_invalid_bytes_passes_both_parsers():
    for words in (["cat", "1", "a\udcff"], ["cat", "1", "--", "a\udcff"]):
        call = hot.parse(words) or app.parse(words)
        assert isinstance(call, Call)
        assert call.arguments["file"] == "a\udcff"


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("rewind 1 a", "put -- before paths: `oxide-ctl rewind ... -- PATH`"),
        ("diff 1 2 a", "put -- before paths: `oxide-ctl diff ... -- PATH`"),
        ("checkpoint message", "a name goes after -m: `oxide-ctl checkpoint -m 'my message'`"),
        ("show 1 a", "`oxide-ctl show --help` tells what it takes"),
    ],
)
def test_one_argument_too_many_comes_with_what_was_meant(line, hint):
    with pytest.raises(UsageError) as raised:
        app.parse(line.split())

    assert raised.value.hint == hint


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "no command was given"),
        ("sttus", "unknown command 'sttus'"),
        ("share", "`share` is not built yet"),
        ("sessions list", "`sessions` is not built yet"),
        ("memory list", "no such command 'list'. Did you mean 'lint'?"),
        ("projects extra", "no such command 'extra'"),
        ("projects move a", "missing argument 'NEW'"),
        ("rewind 1 a b --yes", "got unexpected extra argument(s) (a b)"),
        ("turn", "missing command"),
        ("turn middle", "no such command 'middle'"),
        ("restore 1", "missing option '--to'"),
        ("show", "missing argument 'CKPT'"),
        ("--nonsense", "no such option: --nonsense"),
        ("log --limit", "option '--limit' requires an argument"),
        ("config set retention.ttl_days -5", "no such option: -5"),
    ],
)
def test_a_line_that_makes_no_sense_is_a_usage_error(line, message):
    with pytest.raises(UsageError) as raised:
        app.parse(line.split())

    assert raised.value.message == message
    assert raised.value.hint


def test_a_number_that_looks_like_an_option_is_told_where_it_goes():
    with pytest.raises(UsageError) as raised:
        app.parse("config set retention.ttl_days -5".split())

    assert raised.value.hint == (
        "what begins with a hyphen and is no option goes after --: `oxide-ctl config set ... -- -5`"
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("log --limit x", "invalid value for '--limit': it is no integer"),
        ("rewind 1 --scope foo", "invalid value for '--scope': 'foo' is not one of 'turn', 'session', 'all'"),
    ],
)
def test_a_wrong_value_is_told_in_our_words(line, message):
    with pytest.raises(UsageError) as raised:
        app.parse(line.split())

    assert raised.value.message == message


@pytest.mark.parametrize("line", ["-h", "log -h", "turn begin -h"])
def test_the_short_form_of_help(line, capsys):
    assert app.parse(line.split()) == 0
    short = capsys.readouterr().out
    assert app.parse(line.replace("-h", "--help").split()) == 0
    assert capsys.readouterr().out == short


@pytest.mark.parametrize(
    ("line", "option"),
    [
        ("log -C x", "-C"),
        ("log -Cx", "-C"),
        ("turn begin -C x", "-C"),
        ("log --version", "--version"),
    ],
)
def test_a_global_option_after_the_command_is_told_where_to_go(line, option):
    with pytest.raises(UsageError) as raised:
        app.parse(line.split())

    assert raised.value.hint == f"put {option} before the command"


def test_commands_that_are_not_built_are_not_listed(run):
    listed = run("--help").text.split("Commands:")[1].split("Options")[0]
    names = {" ".join(line.split("  ")[1].split()) for line in listed.strip("\n").splitlines()}

    assert names == catalogue.COMMANDS.keys()
    assert not names & catalogue.NOT_BUILT


@pytest.mark.parametrize("name", catalogue.COMMANDS)
def test_every_command_explains_itself_and_its_options(run, name):
    ended = run(*name.split(), "--help")

    assert ended.code == 0
    assert f"Usage: oxide-ctl {name}" in ended.text
    for parameter in app.declared(name).params:
        assert parameter.help, parameter.name
