"""The file of a tool, by which what it says about itself is remembered: the same file answers the same.

That holds for compilers as they are installed, through all links to them (gcc, /etc/alternatives). It does not hold
for what stands before a compiler: a script, whose compiler may change while the script does not, ccache and the like,
which look for one in the PATH, and macOS's /usr/bin, which asks xcode-select. Such a command is asked for its version
once in each process, and what else it can do is remembered by that answer (`tools.answer_behind`). A program of another
kind that calls itself gcc, and starts another one, is not seen through: its own file must change when that does.
"""

from __future__ import annotations

import os
import re
import sys

#: The names of files that are compilers: x86_64-linux-gnu-gcc-12, clang++, nvcc.
_COMPILER = re.compile(r"(.*-)?(gcc|g\+\+|cc|c\+\+|clang|clang\+\+|nvcc)(-[0-9.]+)?")

#: A file behind all links to it: its path, its size, and when it was changed.
FileState = tuple[str, int, int]


def file_state(path: str) -> FileState:
    """The state of the file that a path leads to. Raises `OSError`."""
    real = os.path.realpath(path)
    found = os.stat(real)
    return real, found.st_size, found.st_mtime_ns


def is_compiler(state: FileState) -> bool:
    """Whether a file is a compiler itself, whose answers it determines, and nothing that stands before one."""
    real = state[0]
    if not _COMPILER.fullmatch(os.path.basename(real)) or (sys.platform == "darwin" and real.startswith("/usr/bin/")):
        return False
    try:
        with open(real, "rb") as stream:
            return stream.read(2) != b"#!"
    except OSError:
        return False
