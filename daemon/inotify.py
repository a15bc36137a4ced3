"""The kernel's inotify as one descriptor, and the names of the directories it watches.

Invariants: a watch is set on an open directory, never on a path, so what is watched is what the caller looked at; a
node stands for one inode for as long as it is watched, and only its links to parent and kids change.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
import termios
from collections.abc import Iterator

IN_MODIFY, IN_ATTRIB, IN_CLOSE_WRITE, IN_MOVED_FROM, IN_MOVED_TO = 0x2, 0x4, 0x8, 0x40, 0x80
IN_CREATE, IN_DELETE, IN_DELETE_SELF, IN_MOVE_SELF = 0x100, 0x200, 0x400, 0x800
IN_UNMOUNT, IN_Q_OVERFLOW, IN_IGNORED, IN_ISDIR = 0x2000, 0x4000, 0x8000, 0x40000000
IN_ONLYDIR, IN_EXCL_UNLINK, IN_MASK_ADD = 0x1000000, 0x4000000, 0x20000000
# No OPEN, ACCESS, CLOSE_NOWRITE: our own listing would fill the queue with them.
_TREE_MASK = (
    IN_MODIFY | IN_ATTRIB | IN_CLOSE_WRITE | IN_MOVED_FROM | IN_MOVED_TO | IN_CREATE | IN_DELETE
    | IN_ONLYDIR | IN_EXCL_UNLINK | IN_MASK_ADD
)  # fmt: skip

_EVENT = struct.Struct("iIII")
_LIBC = ctypes.CDLL(None, use_errno=True)


class Instance:
    """One inotify descriptor."""

    def __init__(self) -> None:
        self.fd = _checked(_LIBC.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))

    def add(self, directory: int, extra: int = 0) -> int:
        """Watch the directory behind the descriptor: a path could name another one by now, or lead through a link."""
        path = b"/proc/self/fd/%d" % directory
        return _checked(_LIBC.inotify_add_watch(self.fd, path, ctypes.c_uint32(_TREE_MASK | extra)))

    def remove(self, watch: int) -> None:
        _LIBC.inotify_rm_watch(self.fd, watch)  # fails where the kernel was faster: the directory is gone

    def queued(self) -> int:
        """How many bytes wait to be read: an event is queued inside the system call that makes the change."""
        return int(struct.unpack("i", fcntl.ioctl(self.fd, termios.FIONREAD, bytes(4)))[0])

    def read(self, size: int) -> bytes:
        try:
            return os.read(self.fd, size)
        except BlockingIOError:
            return b""

    def close(self) -> None:
        os.close(self.fd)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def events(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Watch, mask and name of each event in ``data``; cookies are not needed (see daemon/attachment.py)."""
    offset = 0
    while offset < len(data):
        watch, mask, _, length = _EVENT.unpack_from(data, offset)
        offset += _EVENT.size
        # the kernel pads the name with NULs (inotify(7))
        yield watch, mask, data[offset : offset + length].rstrip(b"\0")
        offset += length


def join(parent: bytes, name: bytes) -> bytes:
    """The path of ``name`` in ``parent``, which is empty for the root."""
    return parent + b"/" + name if parent else name


class Node:
    """A watched directory. Only the root has no name; any other node without a parent is loose."""

    __slots__ = ("kids", "name", "parent", "shut", "watch")

    def __init__(self, watch: int) -> None:
        self.watch = watch
        self.parent: Node | None = None
        self.name = b""
        self.kids: dict[bytes, Node] = {}
        self.shut = False  # watched itself, with nothing below it

    def path(self) -> bytes | None:
        """Relative to the root; None for what is loose."""
        parts = []
        node = self
        while node.parent is not None:
            parts.append(node.name)
            node = node.parent
        return None if node.name else b"/".join(reversed(parts))

    def is_within(self, other: Node) -> bool:
        """Whether ``other`` is this directory or one above it."""
        node: Node | None = self
        while node is not None and node is not other:
            node = node.parent
        return node is not None


class Tree:
    """The nodes by watch, and their links. What left its place is loose until it gets another one or is dropped."""

    def __init__(self) -> None:
        self.nodes: dict[int, Node] = {}
        self.doomed: set[int] = set()  # the watches of dropped nodes, still to be removed from the kernel
        self._loose: set[Node] = set()

    def new(self, watch: int) -> Node:
        # it came back before its watch was removed: the kernel gave the same number again
        self.doomed.discard(watch)
        node = self.nodes[watch] = Node(watch)
        return node

    def link(self, node: Node, parent: Node, name: bytes) -> bool:
        """Put ``node`` at ``name`` in ``parent``; False if that would put it inside itself, as a bind mount can."""
        if parent.kids.get(name) is node:
            return True
        if parent.is_within(node):
            return False
        self.empty(parent, name)
        if node.parent is not None:
            del node.parent.kids[node.name]
        node.parent, node.name = parent, name
        parent.kids[name] = node
        self._loose.discard(node)
        return True

    def empty(self, parent: Node, name: bytes) -> None:
        """Nothing watched stands at ``name`` in ``parent`` any more; what stood there is loose."""
        node = parent.kids.pop(name, None)
        if node is not None:
            node.parent = None
            self._loose.add(node)

    def forget(self, watch: int) -> Node | None:
        """The kernel removed this watch itself; answers the parent of the node it belonged to, if it has one."""
        self.doomed.discard(watch)
        node = self.nodes.pop(watch, None)
        parent = node.parent if node is not None else None
        if node is not None and parent is not None:
            self.empty(parent, node.name)
        return parent

    def drop_loose(self) -> None:
        """What is loose has left the tree, with all below it."""
        while self._loose:
            node = self._loose.pop()
            # the number may belong to another node by now
            if self.nodes.get(node.watch) is node:
                del self.nodes[node.watch]
                self.doomed.add(node.watch)
            for name in list(node.kids):
                self.empty(node, name)
