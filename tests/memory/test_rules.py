"""Which rule is about which file."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openoxide.memory.markdown import page_of
from openoxide.memory.rules import applies, matches, paths_of


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("**/*.ts", ["a.ts", "src/a.ts", "src/b/a.ts"], ["a.tsx", "a.ts/b"]),
        ("src/**/*", ["src/a", "src/b/c.ts"], ["a", "lib/src/a"]),
        ("src/**", ["src/a", "src/b/c.ts"], ["src", "a"]),
        ("*.md", ["a.md"], ["docs/a.md"]),
        ("src/components/*.tsx", ["src/components/a.tsx"], ["src/components/b/a.tsx"]),
        ("src/**/*.{ts,tsx}", ["src/a.ts", "src/b/a.tsx"], ["src/a.js"]),
        ("{src,lib}/**/*.ts", ["src/a.ts", "lib/b/a.ts"], ["test/a.ts"]),
        ("a{b,c{d,e}}f", ["abf", "acdf", "acef"], ["af", "acf"]),
        ("a?c", ["abc"], ["ac", "a/c"]),
        ("[abc].py", ["a.py"], ["d.py"]),
        ("[!a-c].py", ["d.py"], ["a.py", "/.py"]),
        ("[].py", ["[].py"], ["a.py"]),
        ("[z-a].py", ["[z-a].py"], ["z.py"]),
        ("./src/*.ts", ["src/a.ts"], ["a.ts"]),
        ("a+b(c).md", ["a+b(c).md"], ["aab(c).md"]),
        ("/home/u/**/CLAUDE.md", ["/home/u/CLAUDE.md", "/home/u/a/b/CLAUDE.md"], ["/home/v/CLAUDE.md"]),
        ("**/vendor/**", ["/p/vendor/CLAUDE.md", "vendor/a"], ["/p/vendored/a"]),
        ("**/**/**/a", ["a", "b/c/d/e/a"], ["b"]),
        ("no{brace", ["no{brace"], ["nobrace"]),
    ],
)
def test_a_pattern(pattern, yes, no):
    assert [path for path in yes if not matches([pattern], path)] == []
    assert [path for path in no if matches([pattern], path)] == []


@pytest.mark.parametrize("pattern", ["*a" * 40, "{a,b}" * 12, "x" * 2_000 + "{a,b}", "**/a" * 20])
def test_a_pattern_that_would_take_long_matches_nothing(pattern):
    assert not matches([pattern], "a" * 3_000)


@given(st.text(alphabet="*?[]{}!,/ab\\-^.", max_size=25), st.text(alphabet="ab/.[]", max_size=20))
def test_any_pattern_is_answered(pattern, path):
    assert matches([pattern], path) in {True, False}


# the table of what the real client did with src/deep/x.ts
@pytest.mark.parametrize(
    ("patterns", "yes"),
    [
        *(
            (pattern, True)
            for pattern in ("*.ts", "x.ts", "src", "src/", "src/*", "/src/**", "**/x.ts", "src/deep/x.ts", "*")
        ),
        *(
            (pattern, True)
            for pattern in ("src/**/*.ts", "**/*.{js,ts}", "src/**/x.ts", "**/*", "SRC/**", "src/d?ep/*.ts")
        ),
        *(
            (pattern, True)
            for pattern in ("src/[d-e]eep/*.ts", "src/deep", "src/{deep,flat}/**", "**/deep/**", "src/**")
        ),
        *(
            (pattern, True)
            for pattern in ("src/deep/**/x.ts", "src/*/x.ts", "**/deep", "*/deep/*", "deep/**", "src/dee*")
        ),
        *(
            (pattern, True)
            for pattern in ("*/**", "src/**/", "x.{ts,js}", "src**", "src/*p/x.ts", "src/deep/?.ts", "a, src")
        ),
        *(
            (pattern, False)
            for pattern in ("./src/**", "!src/**", "deep/*.ts", "deep/x.ts", "src/*.ts", ".", "eep", "/")
        ),
        *(
            (pattern, False)
            for pattern in ("\\\\*.ts", "#x", "src/deep/x.ts/", "src/deep/x.t", "src//deep/*", "src/**x.ts")
        ),
        *((pattern, False) for pattern in ("src/deep/[!y].ts", "src/deep/[^y].ts", "s*/x.ts", "src/deep/+(x).ts")),
        ("src/**, !src/deep/**", True),
        ("!src/deep/**, src/**", True),
        ("*.ts, !x.ts", False),
    ],
)
def test_a_glob_of_a_rule_is_a_line_of_a_gitignore(patterns, yes):
    found = paths_of(page_of(f'---\npaths: "{patterns}"\n---\ntext'))

    assert found
    assert applies(found, "src/deep/x.ts") is yes


@pytest.mark.parametrize("pattern", ["*a" * 40, "{a,b}" * 12, "x" * 2_000])
def test_a_glob_that_would_take_long_applies_to_nothing(pattern):
    assert not applies(paths_of(page_of(f"---\npaths: '{pattern}'\n---\n")), "a" * 3_000)


@given(
    st.lists(st.text(alphabet="*?[]{}!,/ab\\-^.# ", max_size=25), max_size=3), st.text(alphabet="ab/.[]", max_size=20)
)
def test_any_glob_is_answered(patterns, path):
    assert applies(patterns, path) in {True, False}


@pytest.mark.parametrize(
    ("frontmatter", "paths"),
    [
        ("paths: src/**/*.{ts,tsx}", ("src/**/*.ts", "src/**/*.tsx")),
        ("paths: src/**/*.ts, lib/*.ts", ("src/**/*.ts", "lib/*.ts")),
        ("paths:\n  - 'src/**'\n  - \"*.md\"", ("src", "*.md")),
        ("paths: ['src/**', b]", ("src", "b")),
        ("paths: '**'", ()),
        ("paths: ['**', a]", ("**", "a")),
        ("paths: '**/*'", ("**/*",)),
        ("paths: '/**'", ()),
        ("paths: ''", ()),
        ("paths: []", ()),
        ("paths: '*.{ts}'", ("*.ts",)),
        ("globs: '*.ts'", ()),
        ("paths:", ()),
    ],
)
def test_the_paths_of_a_rule(frontmatter, paths):
    assert paths_of(page_of(f"---\n{frontmatter}\n---\ntext")) == paths
