"""Asks the process that forks (tests/forking.py) for a fork: from Python, or as a program that stands for the fork.

    python -I -S fork_client.py ADDRESS WORD..

The program has nothing to import, and starts at once. The fork has its arguments, environment, folder, and what it was
given open; it ends as the fork does. When it is ended, the fork is, with all that this has started.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from typing import Any


def asked(address: str, request: Mapping[str, Any], descriptors: Sequence[int] = ()) -> socket.socket:
    """A connection by which a fork has been asked for: `answer` reads its exit code there; closed before, it is ended.

    The request has "words", "cwd", "env", and "descriptors", the numbers that the descriptors are to have in the fork;
    also "modules", which are imported before it. Without words there is no fork.
    """
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(address)
    socket.send_fds(connection, [b" "], list(descriptors))
    connection.sendall(json.dumps(request).encode() + b"\n")
    return connection


def answer(connection: socket.socket) -> int:
    """The exit code of a fork once it has ended, negative if a signal has ended it."""
    with connection, connection.makefile() as lines:
        line = lines.readline()
    if not line:
        raise ConnectionError("the process that forks has ended")
    return int(line)


def main() -> int:
    """Stands for the fork, also where a signal ends it."""
    address, *words = sys.argv[1:]
    opened = sorted(int(name) for name in os.listdir("/proc/self/fd"))
    given = [number for number in opened if _is_given(number)]
    request = {"words": words, "cwd": os.getcwd(), "env": dict(os.environ), "descriptors": given}
    code = answer(asked(address, request, given))
    if code < 0:
        if -code not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


def _is_given(number: int) -> bool:
    """Whether this process was started with a descriptor: what it opens itself is not inherited."""
    try:
        return os.get_inheritable(number)
    except OSError:  # the list's own
        return False


if __name__ == "__main__":
    sys.exit(main())
