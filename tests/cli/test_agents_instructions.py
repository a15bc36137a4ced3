"""``memory context`` beside the real agents: each file that it names is in the request, and no other is."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path

import pytest

from tests.cli.agents import ARGUMENTS, need, read, scripted

pytestmark = [
    pytest.mark.clients,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.timeout(600),
]

MARK = "{mark}"
LATE_SECONDS = 400


def case(name, agent, files, given, *, cwd="", reads="", brought="", order=True):
    """``files`` by their paths in the project, or in the home (``~/``), each with a word of its own where MARK stands or at its
    end; ``given`` when the agent starts in ``cwd``, and ``brought`` besides when it reads ``reads``.
    """
    return pytest.param(agent, files, given.split(), cwd, reads, brought.split(), order, id=f"{agent}-{name}")


def mark(name):
    return "word" + hashlib.sha256(name.encode()).hexdigest()[:12]


def place(folder, name, text):
    path = Path.home() / name[2:] if name.startswith("~/") else folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(text, Path):
        path.symlink_to(text)
        return
    if path.suffix in (".md", ".txt") and text.strip() and MARK not in text:
        text = f"{text}\n\n{MARK}\n"
    path.write_text(text.replace(MARK, mark(name)).replace("{home}", str(Path.home())))


def rules(globs):
    return {f".claude/rules/{at}.md": f"---\npaths: {json.dumps(glob)}\n---\ntext" for at, glob in enumerate(globs)}


def settings(**values):
    return json.dumps(values)


EVERY_KIND = {
    "~/.claude/CLAUDE.md": "user @own.md",
    "~/.claude/own.md": "own",
    "~/.claude/rules/style.md": "style",
    "~/.codex/AGENTS.md": "user of codex",
    "~/.gemini/GEMINI.md": "user of gemini @own.md",
    "~/.gemini/own.md": "own",
    "~/.config/opencode/AGENTS.md": "user of opencode",
    "CLAUDE.md": "root",
    ".claude/CLAUDE.md": "hidden",
    ".claude/rules/always.md": "always",
    ".claude/rules/ts/of.md": "---\npaths: '**/*.ts'\n---\nof ts",
    "CLAUDE.local.md": "local",
    "AGENTS.md": "agents @sub/doc.md",
    "AGENTS.local.md": "of nobody",
    "GEMINI.md": "gemini @sub/doc.md",
    "CONTEXT.md": "of nobody here",
    "CONVENTIONS.md": "of nobody",
    ".aider.conf.yml": "read: [CONVENTIONS.md, docs]\n",
    "sub/CLAUDE.md": "sub @doc.md @docs/two.md",
    "sub/AGENTS.md": "sub agents",
    "sub/AGENTS.override.md": "sub override",
    "sub/GEMINI.md": "sub gemini",
    "sub/doc.md": "doc @three.md",
    "sub/three.md": "three @four.md",
    "sub/four.md": "four @five.md",
    "sub/five.md": "five @six.md",
    "sub/six.md": "one too far",
    "sub/docs/two.md": "two <!-- @../../CONTEXT.md -->",
    "sub/docs/more/three.md": "three",
    "sub/CONVENTIONS.md": "conventions",
    "sub/deep/CLAUDE.md": "deep",
    "sub/deep/AGENTS.md": "deep agents",
    "sub/deep/GEMINI.md": "deep gemini",
    "sub/deep/CLAUDE.local.md": "deep local",
    "sub/deep/.claude/rules/deep.md": "deep rule",
    "sub/deep/er/CLAUDE.md": "deeper",
    "sub/deep/er/x.ts": "code\n",
    "other/CLAUDE.md": "elsewhere",
    "other/AGENTS.md": "elsewhere",
    "other/GEMINI.md": "elsewhere",
}
IMPORTS = """**see @a.md** (**@b.md**) *@c.md*, me@d.md [@e.md](x) ![@f.md](x) "@g.md" <b>@h.md</b> <!-- @i.md --> `@j.md`

<rules>
@k.md
</rules>

    @l.md

- x

  @m.md
- @sp\\ ace.md @n.md#part @o.txt @p.mdx @Makefile @q.md, @gone.md @~/out.md @../up.md
"""
NAMES = [*(f"{letter}.md" for letter in "abcdefghijklmnq"), "sp ace.md", "o.txt", "~/out.md", "~/up.md"]
FITTING = [
    "*.ts",
    "src",
    "SRC/**",
    "/src/**",
    "deep/**",
    "src/*/x.ts",
    "x.{ts,js}",
    "*.{ts}",
    "src/d?ep/**",
    "**/*",
    "src/**/",
]
OTHER = ["./src/**", "!src/**", "deep/*.ts", "src/*.ts", "src/[!y]eep/x.ts", "src/deep/x.ts/", "s*/x.ts", "src/**x.ts"]

CASES = [
    case(
        "every-kind",
        "claude",
        EVERY_KIND,
        "~/.claude/CLAUDE.md ~/.claude/own.md ~/.claude/rules/style.md CLAUDE.md .claude/CLAUDE.md .claude/rules/always.md"
        " CLAUDE.local.md sub/CLAUDE.md sub/doc.md sub/three.md sub/four.md sub/five.md sub/docs/two.md",
        cwd="sub",
        reads="deep/er/x.ts",
        brought="sub/deep/CLAUDE.md sub/deep/CLAUDE.local.md sub/deep/.claude/rules/deep.md sub/deep/er/CLAUDE.md"
        " .claude/rules/ts/of.md",
    ),
    case(
        "agents-md-where-no-claude-md-says-anything",
        "claude",
        {
            "~/.claude/CLAUDE.md": "user",
            "CLAUDE.md": f"---\nname: x\n---\n<!-- {MARK} -->\n",
            "AGENTS.md": "agents @doc.md",
            "doc.md": "doc",
            "deep/AGENTS.md": "hidden by the next",
            "deep/CLAUDE.md": "deep",
            "deep/er/AGENTS.md": "deeper",
            "deep/er/x.ts": "code\n",
        },
        "~/.claude/CLAUDE.md AGENTS.md doc.md",
        reads="deep/er/x.ts",
        brought="deep/CLAUDE.md deep/er/AGENTS.md",
    ),
    case(
        "excludes-and-settings",
        "claude",
        {
            "~/.claude/settings.json": settings(
                claudeMdExcludes=["**/sub/CLAUDE.md"],
                pluginConfigs={"agents-md@builtin": {"options": {"instructionFiles": "claude-md-and-agents-md"}}},
            ),
            ".claude/settings.json": settings(claudeMdExcludes=["**/AGENTS.md"]),
            ".claude/settings.local.json": settings(claudeMdExcludes=["**/b.{md,txt}"]),
            "sub/.claude/settings.local.json": settings(claudeMdExcludes=["{home}/.claude/rules/*"]),
            "~/.claude/rules/a.md": "rule",
            "CLAUDE.md": "root @b.md @c.md",
            "b.md": "b",
            "sub/c.md": "c",
            "AGENTS.md": "agents",
            "sub/CLAUDE.md": "sub",
            "sub/CLAUDE.local.md": "local @c.md @../b.md",
        },
        "CLAUDE.md AGENTS.md sub/CLAUDE.local.md sub/c.md",
        cwd="sub",
        order=False,
    ),
    case(
        "imports",
        "claude",
        {"CLAUDE.md": IMPORTS, **dict.fromkeys(NAMES, "text"), "p.mdx": MARK, "Makefile": MARK},
        "CLAUDE.md a.md b.md c.md e.md h.md m.md sp_ace.md n.md o.txt Makefile",
    ),
    case(
        "globs",
        "claude",
        {
            **rules([*FITTING, *OTHER, "**", "/**"]),
            "src/deep/x.ts": "code\n",
            "~/.claude/rules/u.md": "---\npaths: /src\n---\nx",
        },
        f".claude/rules/{len(FITTING + OTHER)}.md .claude/rules/{len(FITTING + OTHER) + 1}.md",
        reads="src/deep/x.ts",
        brought=" ".join(["~/.claude/rules/u.md", *(f".claude/rules/{at}.md" for at in range(len(FITTING)))]),
        order=False,
    ),
    case("every-kind", "codex", EVERY_KIND, "~/.codex/AGENTS.md AGENTS.md sub/AGENTS.override.md", cwd="sub"),
    case(
        "settings-of-a-trusted-project",
        "codex",
        {
            "~/.codex/config.toml": '[projects."{home}/project"]\ntrust_level = "trusted"\n',
            ".codex/config.toml": 'project_doc_fallback_filenames = ["CLAUDE.md"]\nproject_doc_max_bytes = 60\n',
            "CLAUDE.md": f"{MARK}\n{'x' * 20}",
            "sub/AGENTS.md": f"{MARK} and what does not fit",
            "sub/deep/AGENTS.md": "nothing is left for it",
        },
        "CLAUDE.md sub/AGENTS.md",
        cwd="sub/deep",
    ),
    case(
        "every-kind",
        "gemini",
        EVERY_KIND,
        "~/.gemini/GEMINI.md ~/.gemini/own.md GEMINI.md sub/doc.md sub/three.md sub/four.md sub/five.md sub/six.md sub/GEMINI.md",
        cwd="sub",
        reads="deep/er/x.ts",
        brought="sub/deep/GEMINI.md",
        order=False,
    ),
    case(
        "names-and-imports",
        "gemini",
        {
            "~/.gemini/settings.json": settings(context={"fileName": ["X.md", "AGENTS.md"]}),
            "~/.gemini/GEMINI.md": "@../up.md",
            "GEMINI.md": IMPORTS,
            "AGENTS.md": "agents",
            **dict.fromkeys(NAMES, "text"),
            "p.mdx": MARK,
            "Makefile": MARK,
        },
        "~/.gemini/GEMINI.md AGENTS.md GEMINI.md i.md k.md l.md m.md o.txt p.mdx Makefile",
        order=False,
    ),
    case(
        "every-kind",
        "opencode",
        EVERY_KIND,
        "~/.config/opencode/AGENTS.md sub/AGENTS.md AGENTS.md",
        cwd="sub",
        reads="deep/er/x.ts",
        brought="sub/deep/er/CLAUDE.md sub/deep/AGENTS.md",
    ),
    case(
        "settings",
        "opencode",
        {
            "~/.claude/CLAUDE.md": "user",
            "CLAUDE.md": "root",
            "CONTEXT.md": "not this one",
            "~/.config/opencode/config.json": settings(instructions=["~/taken-over.md"]),
            "~/.config/opencode/opencode.json": settings(instructions=["~/v.md", "docs/u.md", "w.md"]),
            "opencode.json": '{ // comment\n "instructions": ["docs/y.md", "docs/g*.md",],\n}',
            ".opencode/opencode.json": settings(instructions=["{home}/abs.md"]),
            **dict.fromkeys(
                ["~/taken-over.md", "~/v.md", "~/.config/opencode/w.md", "docs/u.md", "sub/docs/u.md"], "text"
            ),
            **dict.fromkeys(["docs/y.md", "sub/docs/y.md", "docs/g1.md", "docs/x.md", "~/abs.md"], "text"),
        },
        "~/.claude/CLAUDE.md CLAUDE.md ~/v.md sub/docs/u.md docs/u.md sub/docs/y.md docs/y.md docs/g1.md ~/abs.md",
        cwd="sub",
    ),
    case(
        "every-kind",
        "aider",
        EVERY_KIND,
        "sub/CONVENTIONS.md sub/docs/two.md sub/docs/more/three.md",
        cwd="sub",
        order=False,
    ),
    case(
        "the-nearest-list",
        "aider",
        {
            "~/.aider.conf.yml": "read: [b.md]\n",
            ".aider.conf.yml": "read:\n  - a.md # why\n  - ~/h.md\n",
            "sub/.aider.conf.yml": "dark-mode: true\n",
            **dict.fromkeys(["a.md", "sub/a.md", "sub/b.md", "~/h.md"], "text"),
        },
        "sub/a.md ~/h.md",
        cwd="sub",
        order=False,
    ),
]


@pytest.mark.parametrize(("agent", "files", "given", "cwd", "reads", "brought", "order"), CASES)
def test_what_the_agent_is_given(agent, files, given, cwd, reads, brought, order, clients, machine, tmp_path):
    need(clients, agent)
    # below the home, as a project of a user is
    project = Path.home() / "project"
    project.mkdir()
    subprocess.run(["git", "init", "-q", project], check=True)
    for name, text in files.items():
        place(project, name, text)
    where = project / cwd
    machine.json("watch", str(project))
    steps = [*([[{"op": "read", "path": reads}]] if reads else []), [{"op": "text", "text": "done"}]]
    scenario = {"side": "side", "no_tools_ok": True, "turns": {"m": steps}}
    with scripted(clients, scenario, where, tmp_path) as model:
        clients.Client(agent, model, Path.home(), args=ARGUMENTS.get(agent, []), timeout=LATE_SECONDS).start("[[m]] go")
    requests = model.requests("m")

    def ours(*arguments):
        sources = machine.json("-C", str(where), "memory", "context", "--agent", agent, *arguments)["sources"]
        return kept([shown(source["path"], project) for source in sources])

    def theirs(row):
        text = read(row)
        return kept(sorted((name for name in files if mark(name) in text), key=lambda name: text.index(mark(name))))

    def kept(names):
        return [name.replace(" ", "_") for name in (names if order else sorted(names))]

    assert (theirs(requests[0]), ours()) == (kept(given), kept(given))
    if reads:
        assert (theirs(requests[-1]), ours("--file", reads)) == (kept(given + brought), kept(given + brought))


def shown(path, project):
    home = Path.home()
    return str(
        Path(path).relative_to(project) if Path(path).is_relative_to(project) else f"~/{Path(path).relative_to(home)}"
    )
