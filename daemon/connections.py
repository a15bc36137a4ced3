"""Who is connected to the daemon: at most MAX_CONNECTIONS, each waiting for a request, running one, or dismissed.

Only a waiting connection is ever dismissed, so a request that began runs to its end or until the drain time is over. To
make room only one is that has sent nothing for a while: a client may be gone whose request is still to be read.
"""

from __future__ import annotations

import select
import socket
import struct
import threading
import time
from contextlib import suppress

MAX_CONNECTIONS = 64
IDLE_SECONDS = 1.0


class Connections:
    """The table of connections. A connection in it is open; its thread takes it out before closing it."""

    def __init__(self) -> None:
        self._closing = False
        self._changed = threading.Condition()
        self._waiting: dict[socket.socket, float] = {}  # since when, who has waited longest first
        self._running: set[socket.socket] = set()
        self._dismissed: set[socket.socket] = set()

    def closing(self) -> bool:
        return self._closing

    def enter(self, connection: socket.socket) -> bool:
        """Make room and count ``connection`` in; False when the server closes.

        When all are running, the accepting thread waits here and the others queue in the listener's backlog.
        """
        with self._changed:
            while len(self._waiting) + len(self._running) >= MAX_CONNECTIONS and not self._closing:
                idle = self._idle(time.monotonic())
                if idle is not None:
                    self._dismiss(idle)
                else:
                    self._changed.wait(IDLE_SECONDS if self._waiting else None)
            if not self._closing:
                self._waiting[connection] = time.monotonic()
            return not self._closing

    def begin(self, connection: socket.socket) -> bool:
        """Whether the request that was just read may run: not once the connection was dismissed."""
        with self._changed:
            if connection not in self._waiting:
                return False
            del self._waiting[connection]
            self._running.add(connection)
            return True

    def end(self, connection: socket.socket) -> None:
        """The request was answered; the connection waits for the next one, if it still may."""
        with self._changed:
            self._running.discard(connection)
            self._waiting[connection] = time.monotonic()
            if self._closing:
                self._dismiss(connection)
            self._changed.notify_all()

    def dismissed(self, connection: socket.socket) -> bool:
        """Whether ``connection`` was asked to leave; nothing it may have sent since will run."""
        with self._changed:
            return connection in self._dismissed

    def leave(self, connection: socket.socket) -> None:
        with self._changed:
            self._running.discard(connection)
            self._dismissed.discard(connection)
            self._waiting.pop(connection, None)
            self._changed.notify_all()

    def refuse(self) -> None:
        """From now on nothing enters or begins."""
        with self._changed:
            self._closing = True
            for connection in list(self._waiting):
                self._dismiss(connection)
            self._changed.notify_all()

    def drain(self, seconds: float) -> int:
        """Wait for the running requests; how many had to be cut after ``seconds``."""
        with self._changed:
            self._changed.wait_for(lambda: not self._running and not self._dismissed, seconds)
            for connection in self._running:
                with suppress(OSError):
                    # not close: its thread closes it, and the number could be another file's by then
                    connection.shutdown(socket.SHUT_RDWR)
            return len(self._running)

    def _idle(self, now_s: float) -> socket.socket | None:
        poll = select.poll()
        for connection in self._waiting:
            poll.register(connection, select.POLLIN)
        heard = {number for number, _ in poll.poll(0)}
        return next(
            (
                connection
                for connection, since_s in self._waiting.items()
                if now_s - since_s >= IDLE_SECONDS and connection.fileno() not in heard
            ),
            None,
        )

    def _dismiss(self, connection: socket.socket) -> None:
        del self._waiting[connection]
        self._dismissed.add(connection)
        # The reading side only: whoever sends a request at this moment can still be told that it will not run
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RD)


def peer_uid(connection: socket.socket) -> int:
    """The user at the other end, as the kernel recorded it when it connected."""
    if hasattr(socket, "SO_PEERCRED"):
        raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("iII"))
        return int(struct.unpack("iII", raw)[1])
    # getsockopt(SOL_LOCAL, LOCAL_PEERCRED): struct xucred begins with cr_version and cr_uid
    raw = connection.getsockopt(0, 1, 76)
    return int(struct.unpack_from("II", raw)[1])
