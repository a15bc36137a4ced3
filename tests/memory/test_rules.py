"""Which rule is about which file."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openoxide.memory.markdown import page_of
from openoxide.memory.rules import matches, paths_of


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


@pytest.mark.parametrize(
    ("frontmatter", "paths"),
    [
        ("paths: src/**/*.{ts,tsx}", ("src/**/*.{ts,tsx}",)),
        ("paths: src/**/*.ts, lib/*.ts", ("src/**/*.ts", "lib/*.ts")),
        ("paths:\n  - 'src/**'\n  - \"*.md\"", ("src/**", "*.md")),
        ("paths: ['src/**', b]", ("src/**", "b")),
        ("paths: '**'", ()),
        ("paths: ['**', a]", ("**", "a")),
        ("globs: '*.ts'", ()),
        ("paths:", ()),
    ],
)
def test_the_paths_of_a_rule(frontmatter, paths):
    assert paths_of(page_of(f"---\n{frontmatter}\n---\ntext")) == paths
