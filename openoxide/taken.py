"""The settings that a daemon works with: those of ``config.toml``, or, where that is wrong, those it was right with last.

A file that cannot be read changes nothing: least of all does it shorten a retention to the default.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass

from openoxide.errors import FailedError, OpenOxideError
from openoxide.fileio import replace_file
from openoxide.paths import Home
from openoxide.settings import RetentionSettings, Settings, load_settings, parse_settings, read_text

log = logging.getLogger(__name__)

# with nothing to go by nothing expires: what somebody had set may have been longer than the default
CAUTIOUS = Settings(retention=RetentionSettings(ttl_days=0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What a daemon took when it started. ``problem``: why not what ``config.toml`` says; empty where it is that."""

    settings: Settings
    problem: str = ""


def take_settings(home: Home) -> Taken:
    """The settings to start with. A text that is right is kept as ``config.toml.used`` for when it is not any more."""
    try:
        text = _text(home)
        settings = parse_settings(text or "", home.config)
    except OpenOxideError as error:
        return _before(home, error)
    try:
        _keep(home, text)
    except OSError as error:  # a full disk ends no daemon; the copy of before is as good as none
        log.warning("what config.toml says could not be kept beside it: %s", error.strerror)
    return Taken(settings=settings)


def _text(home: Home) -> str | None:
    """As :func:`read_text`. Raises FailedError too where nothing stands in the file and something did before: a full disk or
    a power cut leaves such a file, and who wants the defaults deletes it.
    """
    text = read_text(home.config)
    if text == "" and _kept(home):
        raise FailedError(f"{home.config} is empty, and was not before", hint="delete it if the defaults are to hold")
    return text


def _kept(home: Home) -> str | None:
    with suppress(OpenOxideError):
        return read_text(home.used_config)
    return None


def _before(home: Home, error: OpenOxideError) -> Taken:
    with suppress(OpenOxideError):
        if home.used_config.exists():
            return Taken(
                settings=load_settings(home.used_config),
                problem=f"{error.message}; the settings of before hold on ({home.used_config.name})",
            )
    return Taken(settings=CAUTIOUS, problem=f"{error.message}; the defaults hold, and nothing expires meanwhile")


def _keep(home: Home, text: str | None) -> None:
    if text is None:
        home.used_config.unlink(missing_ok=True)
    elif text != _kept(home):
        replace_file(home.used_config, text.encode())


def trouble(home: Home, taken: Taken) -> str:
    """What is wrong with ``config.toml`` now, while a daemon works with ``taken``; empty where nothing is."""
    try:
        parse_settings(_text(home) or "", home.config)
    except OpenOxideError as error:
        return taken.problem or f"{error.message}; the daemon goes on with the settings that it started with"
    return f"{home.config} is right again, and not taken up yet: {taken.problem}" if taken.problem else ""


def waits(home: Home, taken: Taken) -> bool:
    """Whether ``config.toml`` says something else by now than ``taken``, and is right."""
    try:
        return parse_settings(_text(home) or "", home.config) != taken.settings
    except OpenOxideError:
        return False
