"""``oxide-hook AGENT EVENT``: hands what an agent tells on standard input to the daemon, and never stands in its way.

It ends with 0 and within END_SECONDS whatever happens, and prints nothing but what the daemon has to say to the agent.
It is started as a file, ``python -I -S .../cli/hook.py AGENT EVENT``, for each prompt and each tool call. So nothing of
ours is imported, and of Python only what is built in: what the payload means is the daemon's to know. Of the environment
the home and PROJECT_VARIABLES are read, nothing else: agents hand secrets on in it.

Where nobody takes the request it is written into the folder ``spool`` of the home, from which the daemon takes it up.
Where the home holds no history there is nothing to tell to.
"""

import _signal
import _socket
import posix
import sys
import time

# of openoxide.daemon.protocol (tests/cli/test_hook.py)
PROTOCOL = 1
MAX_REQUEST_BYTES = 8 << 20

ANSWER_MS, END_SECONDS = 250, 0.3
MAX_PAYLOAD_BYTES = MAX_REQUEST_BYTES - (64 << 10)
MAX_ANSWER_BYTES = 1 << 20
SPOOL_FILES, SPOOL_BYTES = 1_000, 16 << 20

# the agent goes on only when these are answered: a checkpoint has to hold what was there before
AWAITED = frozenset({"SessionStart", "UserPromptSubmit", "BeforeAgent", "PreToolUse", "BeforeTool"})
# where the agent was started; the cwd that a payload names follows what its tools do
PROJECT_VARIABLES = {"claude": b"CLAUDE_PROJECT_DIR", "gemini": b"CLAUDE_PROJECT_DIR"}


def main() -> int:
    """Tell the daemon; 0."""
    try:
        at_ms = _now_ms()
        # for what no timeout of a socket ends: a standard input that stays open, a disk that does not answer
        _signal.signal(_signal.SIGALRM, _end)
        _signal.setitimer(_signal.ITIMER_REAL, END_SECONDS)
        _tell(sys.argv[1:], at_ms)
    except BaseException:  # noqa: BLE001, S110 whatever went wrong is no reason for the agent to fail
        pass
    return 0


def _end(_number: int, _frame: object) -> None:
    # an exception would have to pass whatever is under way, and a second one could come in its place
    posix._exit(0)  # noqa: SLF001 the name is the system's


def _tell(arguments: list[str], at_ms: int) -> None:
    payload, size = _read_input()
    if len(arguments) < 2 or not _enter_home():
        return
    agent, event = _word(arguments[0]), _word(arguments[1])
    body = _body(agent, event, payload, size, at_ms)
    answer = _ask(body, at_ms + ANSWER_MS, awaited=event in AWAITED)
    if answer is None:
        _spool(body)
    else:
        _show(answer)


def _read_input() -> tuple[bytes, int]:
    """The payload, and how many bytes came. All is read, an agent need not bear a broken pipe; what is too large to be
    sent whole is not kept, since a part of it means nothing.
    """
    parts, size = [], 0
    try:
        while part := posix.read(0, 1 << 16):
            size += len(part)
            if size <= MAX_PAYLOAD_BYTES:
                parts.append(part)
            else:
                parts.clear()
    except OSError:  # it is closed
        pass
    return b"".join(parts), size


def _enter_home() -> bool:
    """Whether there is a history of this user's; then it is the working directory, which no limit on the length of a
    socket's path can get in the way of.
    """
    home = posix.environ.get(b"OPENOXIDE_HOME") or posix.environ[b"HOME"] + b"/.openoxide"
    posix.chdir(home)
    return posix.stat("timeline.db").st_uid == posix.geteuid()


def _word(argument: str) -> str:
    """What may stand between quotes as it is."""
    return "".join(char for char in argument[:64] if char.isascii() and (char.isalnum() or char in "-_"))


def _body(agent: str, event: str, payload: bytes, size: int, at_ms: int) -> bytes:
    # behind the payload: of a key that is there twice the last counts, so a payload cannot speak for us
    fields = f', "agent": "{agent}", "event": "{event}", "at_ms": {at_ms}'
    if event in AWAITED:
        fields += f', "due_ms": {at_ms + ANSWER_MS}'
    project = posix.environ.get(PROJECT_VARIABLES.get(agent, b""))
    if project:
        fields += f', "project_dir": {_quoted(project)}'
    if size > MAX_PAYLOAD_BYTES:
        fields += f', "dropped_bytes": {size}'
    return b'{"payload": ' + (payload if payload.strip() else b"null") + fields.encode() + b"}"


def _quoted(path: bytes) -> str:
    """A path as JSON; a byte that is no UTF-8 goes as the surrogate that os.fsdecode makes of it."""
    text = path.decode("utf-8", "surrogateescape")
    plain = (char >= " " and char not in '"\\' and not "\ud800" <= char <= "\udfff" for char in text)
    return '"' + "".join(c if p else f"\\u{ord(c):04x}" for c, p in zip(text, plain, strict=True)) + '"'


def _ask(body: bytes, due_ms: int, *, awaited: bool) -> bytes | None:
    """What was answered by then; None where the daemon did not take the request, or ended before it could answer."""
    head = (
        "POST /v1/hook HTTP/1.1\r\nHost: openoxide\r\nConnection: close\r\nContent-Type: application/json\r\n"
        f"X-OpenOxide-Protocol: {PROTOCOL}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    # not closed: the process ends, and what was sent is still read
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        connection.settimeout(_left(due_ms))
        connection.connect("oxided.sock")
        connection.sendall(head.encode() + body)
    except OSError:
        return None
    answer = _receive(connection, due_ms) if awaited else b""
    return None if answer is None or answer.startswith(b"HTTP/1.1 503 ") else answer


def _receive(connection: _socket.socket, due_ms: int) -> bytes | None:
    answer = b""
    try:
        while len(answer) < MAX_ANSWER_BYTES:
            # each time anew: an answer that comes in drops must not take a timeout for each of them
            connection.settimeout(_left(due_ms))
            part = connection.recv(1 << 16)
            if not part:
                return answer or None
            answer += part
    except TimeoutError:  # it is under way: not told again
        pass
    except OSError:
        return None
    return b""


def _left(due_ms: int) -> float:
    return max(1, due_ms - _now_ms()) / 1000


def _now_ms() -> int:
    """The clock by which the daemon tells whether an answer is late (openoxide.clock, boot_ms)."""
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)) // 1_000_000


def _show(answer: bytes) -> None:
    """Print what is for the agent, most often nothing."""
    head, _, body = answer.partition(b"\r\n\r\n")
    key = b'"stdout": "'
    # no quote stands bare in a text of JSON, so the first one of these is the key
    at = body.find(key)
    if not head.startswith(b"HTTP/1.1 200 ") or at < 0 or b'"stdout": ""' in body:
        return
    # all of json takes as long as the interpreter, and this is what it reads a text with
    from _json import scanstring  # noqa: PLC0415 as above

    text = scanstring(body.decode(), at + len(key))[0].encode()
    while text:
        text = text[posix.write(1, text) :]


def _spool(body: bytes) -> None:
    """Leave the request for a daemon that starts later, whole or not at all, unless too much lies there already."""
    try:  # noqa: SIM105 contextlib would be one more import
        posix.mkdir("spool", 0o700)
    except FileExistsError:
        pass
    folder = posix.open("spool", posix.O_RDONLY | posix.O_DIRECTORY | posix.O_NOFOLLOW | posix.O_CLOEXEC)
    names = posix.listdir(folder)
    is_full = len(names) >= SPOOL_FILES or sum(_size(name, folder) for name in names) + len(body) > SPOOL_BYTES
    if is_full or posix.fstat(folder).st_uid != posix.geteuid():
        return
    # begins with the time, since that is the order in which it is taken up
    name = f"{time.time_ns():020d}-{posix.getpid()}"
    file = posix.open(
        name + ".new", posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL | posix.O_NOFOLLOW, 0o600, dir_fd=folder
    )
    try:
        while body:
            body = body[posix.write(file, body) :]
        posix.rename(name + ".new", name + ".json", src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:  # no space: not even what was begun stays
        posix.unlink(name + ".new", dir_fd=folder)


def _size(name: str, folder: int) -> int:
    try:
        return posix.stat(name, dir_fd=folder, follow_symlinks=False).st_size
    except FileNotFoundError:  # the daemon has just taken it up
        return 0


if __name__ == "__main__":
    main()
    posix._exit(0)  # noqa: SLF001 nothing is left to tidy up, and the agent waits
