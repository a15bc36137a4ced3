"""What a worker under the fault shim uses. Standard library only: it is imported once for each point of a sweep."""

from __future__ import annotations

import os
import struct

ARMED_AT = 16  # the third word of the counter file (shim.c)


def ack(text: str) -> None:
    """Acknowledge ``text`` on standard output, in one write, after the program promised that it is durable."""
    os.write(1, f"ACK {text}\n".encode())


def arm(*, on: bool = True) -> None:
    """From here on calls count, in all processes of the run. Without the shim this does nothing."""
    page = os.environ.get("FAULT_COUNT")
    if page is None:
        return
    descriptor = os.open(page, os.O_WRONLY)
    try:
        os.pwrite(descriptor, struct.pack("=Q", on), ARMED_AT)
    finally:
        os.close(descriptor)
