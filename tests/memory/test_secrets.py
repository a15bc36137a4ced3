"""What looks like a secret, and what only talks about one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openoxide.memory.secrets import REDACTED, find, new_in, redact, values_of_env

R = "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA1bC2"
SECRETS = {
    "GitHub token": f"ghp_{R}",
    "GitHub token of the new form": f"github_pat_{R}_{R}",
    "GitLab token": "glpat-" + R[:20],
    "AWS key": "AKIAIOSFODNN7EXAMPLE",
    "Anthropic key": f"sk-ant-api03-{R}",
    "OpenAI key": f"sk-proj-{R}",
    "Google key": "AIza" + R[:35],
    "Slack token": "xoxb-123456789012-abcdefABCDEF",
    "Slack address": "https://hooks.slack.com/services/T000/B000/" + R[:24],
    "Stripe key": "sk_live_" + R[:24],
    "npm token": "npm_" + R[:36],
    "PyPI token": f"pypi-{R}{R}",
    "Hugging Face token": "hf_" + R[:34],
    "web token": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P",
    "private key": "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAKC\n-----END RSA PRIVATE KEY-----",
    "private key without an end": "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk",
    "password in an address": "hunter:s3cretpw",
    "random text": "q7Zk1Wm9Xr4Tb8Vn2Yc6Lp3Jd5Hf0Gs1Qa",
}


@pytest.mark.parametrize("kind", SECRETS)
def test_a_secret_is_found_and_redacted(kind):
    secret = SECRETS[kind]
    before, after = (
        ("postgres://", "@db.example.org/x") if "address" in kind and "://" not in secret else ("the value ", " is it")
    )
    text = f"# Notes\n\n{before}{secret}{after}\n"

    (found,) = find(text)

    assert (found.line, text[found.start : found.stop]) == (3, secret)
    assert secret not in found.shown
    rows = "\n" * secret.count("\n")
    assert redact(text) == f"# Notes\n\n{before}{REDACTED}{rows}{after}\n"


@pytest.mark.parametrize(
    "text",
    [
        "password = Tr0ub4dor&3x",
        'API_KEY: "abc123def456"',
        "db-password is `S3cure!pass`",
        "client_secret=9f8e7d6c-5b4a",
        "export MY_SERVICE_TOKEN='a1b2c3d4e5'",
        "Authorization: Bearer abcDEF123456ghiJKL789",
        '{"access_key": "Zx9Cv8Bn7M"}',
    ],
)
def test_what_is_assigned_to_a_secret_name_is_one(text):
    assert len(find(text)) == 1
    assert REDACTED in redact(text)


@pytest.mark.parametrize(
    "text",
    [
        "the password is in the vault",
        "password: <your password>",
        "token = ${GITHUB_TOKEN}",
        "API_KEY=your_api_key_here1",
        "secret: see docs/secrets.md",
        "api_key = os.environ['KEY1']",
        "tokens: 25,000 is the limit",
        "token budget: 200000",
        "commit 88f6012b2dbf02a6ce7702eb34cd5ea45c6912af",
        "id 123e4567-e89b-12d3-a456-426614174000",
        "src/openoxide/memory/Instructions2/hierarchy_of_levels.py",
        "https://example.org/a/b/c?x=1",
        "ssh://git@github.com:22/a/b",
        "task-sk-something-that-is-long-and-has-no-digit",
        "VeryLongClassNameThatSomebodyHasWritten2Times",
        "`password` is a column",
        "ghp_short",
    ],
)
def test_a_word_about_a_secret_is_none(text):
    assert [one.kind for one in find(text)] == []


def test_known_values_are_found_wherever_they_stand():
    env = "# c\nexport DB=correct-horse\nSHORT=abc\nPLACE=${X}\nNAME='battery staple'\n=x\n"

    known = values_of_env(env)

    assert known == {"correct-horse", "battery staple"}
    assert redact("say correct-horse and battery staple, abc", known) == f"say {REDACTED} and {REDACTED}, abc"


def test_only_what_is_new_counts_against_a_writer():
    old = f"a {SECRETS['AWS key']}\n"

    assert new_in(old + "b\n", old) == []
    assert [one.kind for one in new_in(old + SECRETS["npm token"], old)] == ["npm token"]


@given(st.lists(st.sampled_from([*SECRETS.values(), "word", "\n", " ", "password: "]), max_size=8).map(" ".join))
def test_what_was_redacted_holds_no_secret(text):
    once = redact(text)

    assert find(once) == []
    assert redact(once) == once


@given(st.text())
def test_places_are_in_order_and_apart(text):
    done = 0
    for one in find(text):
        assert done <= one.start < one.stop
        assert text[one.start : one.stop] == one.value
        assert one.line == text.count("\n", 0, one.start) + 1
        done = one.stop


@pytest.mark.parametrize(
    "text",
    [
        "a_" * 50_000,
        "token " * 20_000,
        "A1" * 60_000,
        "-----BEGIN PRIVATE KEY-----" * 2_000,
        "eyJ" * 40_000,
        "://a" * 30_000,
    ],
)
def test_a_hostile_text_is_looked_through_in_one_go(text):
    assert find(text) is not None
