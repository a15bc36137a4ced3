"""``oxided``: one daemon for each home. In the foreground it answers to signals and can show its timeline."""

from __future__ import annotations

import argparse
import gc
import logging
import os
import resource
import shlex
import signal
import sys
import threading
from contextlib import suppress
from shutil import which
from types import FrameType

from openoxide import __version__
from openoxide.checkpoints.model import Checkpoint, Worktree
from openoxide.clock import SystemClock
from openoxide.daemon import logs
from openoxide.daemon.answers import checkpoint_object
from openoxide.daemon.instance import Instance, acquire
from openoxide.daemon.launch import EXIT_ALREADY_RUNNING, last_words
from openoxide.daemon.operations.watching import watch
from openoxide.daemon.protocol import Progress, printable
from openoxide.daemon.routes import routes
from openoxide.daemon.server import Server
from openoxide.daemon.service import Service
from openoxide.daemon.terminal import Timeline as Screen
from openoxide.daemon.terminal import when_reader_leaves
from openoxide.errors import AlreadyRunningError, OpenOxideError, exit_code
from openoxide.fileio import make_private
from openoxide.paths import Home, home_from
from openoxide.taken import take_settings

DRAIN_MS = 5_000
VALUES_BETWEEN_COLLECTIONS = 20_000  # some MB, where all of them were cycles

SWITCH_S = 0.0005
"""For how long a thread may compute while another one wants to: whoever seals asks for the interpreter some twenty times, and
waits so long each time beside an expire of ten thousands (sys.setswitchinterval, 5 ms by default)."""

# not __name__, which is __main__ where the command line starts a daemon, and no part of our loggers
log = logging.getLogger("openoxide.daemon.main")
_ENDING = (signal.SIGTERM, signal.SIGINT)


def main(argv: list[str] | None = None) -> int:
    """Run until stopped by a signal or by ``oxide-ctl stop``."""
    options = _parser().parse_args(argv)
    os.umask(0o077)
    sys.setswitchinterval(SWITCH_S)
    _allow_descriptors()
    home = home_from(os.environ)
    try:
        instance = acquire(home)
        logs.configure(os.environ, None if options.foreground else home.logs)
        return _run(instance, home, options)
    except OpenOxideError as error:
        return _refuse(error, options)


def _allow_descriptors() -> None:
    """As many as the system lets us have: the soft limit is low for programs that use select(2), which we do not."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # macOS refuses more than OPEN_MAX, whatever the hard limit is
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _refuse(error: OpenOxideError, options: argparse.Namespace) -> int:
    """Say why the daemon does not run: to a person, or to the client that started it."""
    if not options.foreground:
        sys.stdout.write(last_words(error) + "\n")
        return EXIT_ALREADY_RUNNING if isinstance(error, AlreadyRunningError) else exit_code(error)
    sys.stderr.write(f"oxided: {printable(error.message)}\n")
    hint = error.hint
    if options.watch and isinstance(error, AlreadyRunningError):
        hint = _instead(os.path.abspath(options.watch))
    if hint:
        sys.stderr.write(f"hint: {printable(hint)}\n")
    return exit_code(error)


def _instead(root: str) -> str:
    """What to type where another daemon runs: as it can be pasted, also where no PATH leads to the command line."""
    program = (
        "oxide-ctl" if which("oxide-ctl") else shlex.quote(os.path.join(os.path.dirname(sys.executable), "oxide-ctl"))
    )
    return (
        f"`{program} watch {shlex.quote(root)}` has that one watch it; "
        f"`{program} stop` ends that one, and then this one can start"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="oxided", description="The OpenOxide daemon.")
    parser.add_argument("--foreground", action="store_true", help="stay in the terminal, log to standard error")
    parser.add_argument("--watch", metavar="PATH", help="watch this directory from the start")
    parser.add_argument("--timeline", action="store_true", help="show checkpoints as they are sealed")
    parser.add_argument("--version", action="version", version=f"oxided {__version__}")
    return parser


def _run(instance: Instance, home: Home, options: argparse.Namespace) -> int:
    try:
        make_private(home.folder)
        taken = take_settings(home)
        if taken.problem:
            log.warning("config.toml is not used: %s", taken.problem)
        service = Service(home, taken.settings, SystemClock())
        service.taken = taken
        stop = service.stop_requested
        _stop_on_signals(stop)
        # before anybody can connect: whoever had would be cut off by what it raises, and not learn of it
        service.start()
        _collect_seldom()
        try:
            _answer_until(stop, instance, service, options)
        finally:
            service.stop()
            log.info("stopped")
    finally:
        instance.close()
    return 0


def _collect_seldom() -> None:
    """What stands by now stays, and is not looked through again; what captures make by the ten thousand has no cycles, and
    goes when nobody names it any more (Python, gc).
    """
    gc.freeze()
    gc.set_threshold(VALUES_BETWEEN_COLLECTIONS, 20, 100)


def _answer_until(stop: threading.Event, instance: Instance, service: Service, options: argparse.Namespace) -> None:
    stands = service.timeline.standing.holds
    server = Server(instance.listen(), routes(service), __version__, stands=stands)
    threading.Thread(target=_serve, args=(server, stop), name="server", daemon=True).start()
    log.info("started, version %s, home %s", __version__, service.home.folder)
    try:
        if options.timeline:
            when_reader_leaves(sys.stdout, stop.set)
        with Screen(sys.stdout, tty=sys.stdout.isatty()) as screen:
            if options.watch:
                _watch_first(service, screen if options.timeline else None, options.watch)
            stop.wait()
            if options.timeline:
                screen.stopped("as asked")
    finally:
        server.close(DRAIN_MS)


def _serve(server: Server, stop: threading.Event) -> None:
    """A daemon that cannot be asked is none: when serving ends, for whatever reason, so does the daemon."""
    try:
        server.serve_forever()
    finally:
        stop.set()


def _stop_on_signals(stop: threading.Event) -> None:
    """A thread of its own waits for the byte that the interpreter writes when a signal comes. A handler would not do: it
    runs in the main thread, and where the signal came just before that one began to wait, not until the next signal.
    """
    told, wakeup = os.pipe()
    # signal.set_wakeup_fd refuses a blocking one: a full pipe would hold up whatever the signal came into
    os.set_blocking(wakeup, False)
    signal.set_wakeup_fd(wakeup)
    for number in _ENDING:
        signal.signal(number, _leave_to_the_thread)
    threading.Thread(target=_await_signal, args=(told, stop), name="signals", daemon=True).start()


def _leave_to_the_thread(_number: int, _frame: FrameType | None) -> None:
    """Without a handler the signal would end the process at once."""


def _await_signal(told: int, stop: threading.Event) -> None:
    # a byte comes for every signal that has a handler, with its number: a sampler in this process has one too
    while os.read(told, 1)[0] not in _ENDING:
        pass
    stop.set()


def _watch_first(service: Service, screen: Screen | None, named: str) -> None:
    def sealed(worktree: Worktree, checkpoint: Checkpoint) -> None:
        if screen is not None:
            screen.checkpoint(checkpoint_object(checkpoint), os.fsdecode(worktree.root))

    def report(progress: Progress) -> None:
        if screen is not None:
            screen.capturing(progress)

    service.on_sealed.append(sealed)
    answer = watch(service, {"path": os.path.abspath(named)}, report)
    if screen is not None:
        screen.started(answer["root"], str(service.home.socket))
        if not answer["created"]:
            screen.checkpoint(answer["checkpoint"], answer["root"])


if __name__ == "__main__":
    sys.exit(main())
