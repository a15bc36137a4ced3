"""Texts that are likely to be secrets: tokens of known shapes, keys, values of settings that are called so. Pure.

A guess can be wrong either way. Our own writer refuses what is new and looks so; what others wrote is shown and exported
with ``[redacted]`` in its place, and its file is never touched.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass

REDACTED = "[redacted]"
LEAST_KNOWN = 8  # a shorter value of an .env file ("true", "5432") stands everywhere

# what stands in each, and is looked for first: most texts hold none of it
_SHAPES = {
    "GitHub token": (
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        r"gh[pousr]_[A-Za-z0-9]{30,255}|github_pat_[A-Za-z0-9_]{40,255}",
    ),
    "GitLab token": (("gl",), r"gl(?:pat|dt|rt|cbt|ptt|ft)-[A-Za-z0-9_.-]{20,255}"),
    "AWS key": (("AKIA", "ASIA", "ABIA", "ACCA"), r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
    "Anthropic key": (("sk-ant-",), r"sk-ant-[A-Za-z0-9_-]{20,255}"),
    "OpenAI key": (("sk-",), r"sk-(?=[A-Za-z_-]{0,99}[0-9])(?=[a-z0-9_-]{0,99}[A-Z])[A-Za-z0-9_-]{32,255}"),
    "Google key": (("AIza", "ya29."), r"AIza[A-Za-z0-9_-]{35}|ya29\.[A-Za-z0-9_-]{30,}"),
    "Slack token": (("xox", "xapp-"), r"xox[abeprs]-[A-Za-z0-9-]{10,255}|xapp-[0-9]-[A-Za-z0-9-]{20,255}"),
    "Slack address": (("hooks.slack.com",), r"https://hooks\.slack\.com/services/[A-Za-z0-9/]{20,}"),
    "Stripe key": (
        ("_live_", "_test_", "whsec_"),
        r"(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,255}|whsec_[A-Za-z0-9]{24,}",
    ),
    "npm token": (("npm_",), r"npm_[A-Za-z0-9]{36}"),
    "PyPI token": (("pypi-",), r"pypi-[A-Za-z0-9_-]{50,}"),
    "Hugging Face token": (("hf_",), r"hf_[A-Za-z0-9]{30,}"),
    "SendGrid key": (("SG.",), r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),
    "DigitalOcean token": (("_v1_",), r"do[opr]_v1_[a-f0-9]{64}"),
    "web token": (("eyJ",), r"eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{5,}"),
}
# a token begins where a word does: a long word is looked through once
_KNOWN = {kind: (marks, re.compile(rf"(?<![A-Za-z0-9])(?:{shape})")) for kind, (marks, shape) in _SHAPES.items()} | {
    # in a text of JSON it follows an escaped line feed, which is a letter
    "private key": (
        ("PRIVATE KEY",),
        re.compile(
            r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----(?:(?:(?!-----)[\s\S]){0,16384}-----END [A-Z ]{0,40}PRIVATE KEY-----"
            r"|(?:\r?\n[A-Za-z0-9+/=]{1,100}){0,400})"
        ),
    ),
    "password in an address": (("://",), re.compile(r"(?<=://)[^\s/:@]{1,80}:[^\s/@]{3,200}(?=@[\w.-])")),
}
_NAMED = ("passw", "passphrase", "secret", "key", "token", "credential")
_ASSIGNED = re.compile(
    r"(?i)(?<![a-z])(?:password|passwd|passphrase|secret|api[_-]?key|access[_-]?key|private[_-]?key|auth[_-]?token|token|credentials?)"
    r"[\"'`]?\s{0,4}(?:=|:|=>|\bis\b)\s{0,4}(?:(?P<quote>[\"'`])(?P<quoted>[^\"'`\n]{6,200})(?P=quote)|(?P<bare>[^\s\"'`,;)]{8,200}))"
)
_BEARER = re.compile(r"(?i)\bbearer\s+(?P<bare>[A-Za-z0-9._~+/=-]{16,500})")
_PLACEHOLDER = re.compile(
    r"(?i)^(?:<.*>|\$\{?.*|%.*%|\{\{.*|\*+|x{4,}.*|\.{3}.*|your[_-].*|my[_-].*|example.*|changeme.*|redacted.*|\[.*|none|null|true|false"
    r"|process\.env.*|os\.(?:environ|getenv).*|env\..*|(?:see|in|from|stored|kept)\b.*|required|optional|string)$"
)
_TOKEN = re.compile(r"(?<![A-Za-z0-9+/_=-])[A-Za-z0-9+/_=-]{32,}")
_HEX = re.compile(r"[0-9a-fA-F-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """Where one stands: ``line`` from 1, ``start`` and ``stop`` in the text. ``value`` is never shown or logged."""

    kind: str
    line: int
    start: int
    stop: int
    value: str

    @property
    def shown(self) -> str:
        """Enough to find it by, too little to use it."""
        return f"{self.value[:4]}… ({len(self.value)} characters)"


def find(text: str, known: Collection[str] = ()) -> list[Secret]:
    """Every likely secret, in order, none inside another. ``known`` are values that are secret for sure, as of an .env."""
    found = sorted(_candidates(text, known), key=lambda item: (item[1], -item[2]))
    secrets: list[Secret] = []
    done = line = at = 0
    for kind, start, stop in found:
        if start < done:
            continue
        line, at, done = line + text.count("\n", at, start), start, stop
        secrets.append(Secret(kind=kind, line=line + 1, start=start, stop=stop, value=text[start:stop]))
    return secrets


def redact(text: str, known: Collection[str] = ()) -> str:
    """``text`` with ``[redacted]`` in the place of each; it has as many lines as before."""
    pieces, done = list[str](), 0
    for secret in find(text, known):
        pieces += [text[done : secret.start], REDACTED, "\n" * secret.value.count("\n")]
        done = secret.stop
    return "".join([*pieces, text[done:]])


def new_in(text: str, before: str, known: Collection[str] = ()) -> list[Secret]:
    """Those that ``before`` did not hold: an edit elsewhere in a file is not to blame for what was there."""
    old = {secret.value for secret in find(before, known)}
    return [secret for secret in find(text, known) if secret.value not in old]


def values_of_env(text: str) -> set[str]:
    """The values of an .env file that are long enough to be looked for."""
    found: set[str] = set()
    for line in text.splitlines():
        name, is_set, value = line.removeprefix("export ").partition("=")
        value = value.strip().strip("\"'")
        if is_set and not name.lstrip().startswith("#") and len(value) >= LEAST_KNOWN and not _PLACEHOLDER.match(value):
            found.add(value)
    return found


def _candidates(text: str, known: Collection[str]) -> Iterator[tuple[str, int, int]]:
    for kind, (marks, pattern) in _KNOWN.items():
        if any(mark in text for mark in marks):
            yield from ((kind, *match.span()) for match in pattern.finditer(text))
    low = text.lower()
    for pattern in (
        *((_ASSIGNED,) if any(name in low for name in _NAMED) else ()),
        *((_BEARER,) if "bearer" in low else ()),
    ):
        for match in pattern.finditer(text):
            group = "quoted" if match.groupdict().get("quoted") else "bare"
            if _is_value(match[group]):
                yield "password or key", *match.span(group)
    for match in _TOKEN.finditer(text):
        if _is_random(match[0]):
            yield "random text", *match.span()
    for value in known:
        for match in re.finditer(re.escape(value), text) if len(value) >= LEAST_KNOWN else ():
            yield "value of an .env file", *match.span()


def _is_value(value: str) -> bool:
    """Whether what is assigned to a secret's name is one, and not a word about it."""
    if _PLACEHOLDER.match(value) or REDACTED in value or "://" in value:
        return False
    kinds = sum(any(test(char) for char in value) for test in (str.islower, str.isupper, str.isdigit))
    has_sign = any(not char.isalnum() for char in value.strip(".!?:"))
    return kinds >= 2 or (any(map(str.isdigit, value)) and has_sign)


def _is_random(token: str) -> bool:
    """Whether a long run of letters and digits looks drawn: not a path, a name, a hash of a commit or an id."""
    if _HEX.fullmatch(token) or not (any(map(str.isdigit, token)) and any(map(str.isupper, token))):
        return False
    if not any(map(str.islower, token)) or re.search(r"[a-z]{7,}", token) or token.count("/") > 3:
        return False
    counts = Counter(token)
    entropy = -sum(n / len(token) * math.log2(n / len(token)) for n in counts.values())
    return entropy > 4.3
