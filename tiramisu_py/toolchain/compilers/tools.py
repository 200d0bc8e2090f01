"""Tools such as compilers are run: for a bounded time, and ended with all that they have started."""

from __future__ import annotations

import contextlib
import errno
import functools
import logging
import math
import os
import shlex
import signal
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from tiramisu_py.errors import ArgumentError, ToolchainError
from tiramisu_py.toolchain.files.tool_files import FileState, is_compiler

_log = logging.getLogger(__name__)

#: The time limit in seconds for probing a tool; a tool that exceeds it is not used.
PROBE_SECONDS = 120.0
#: The time limit in seconds for a compilation, unless the environment gives another one.
COMPILER_SECONDS = 1800.0
_VARIABLE = "TIRAMISU_COMPILER_SECONDS"
_TOO_LONG = 124
#: Faults of this process or this machine, not of the tool that is started.
SHORTAGES = {
    errno.EMFILE: "this process has too many open files; allow more: ulimit -n 1024",
    errno.ENFILE: "this machine has too many open files",
    errno.EAGAIN: "there are too many processes; allow more: ulimit -u",
    errno.ENOMEM: "there is no memory for another process",
}
#: Where a thread keeps the `RunningTools` that it belongs to.
_OWN = "tiramisu_py_tools"


class RunningTools:
    """The tools that threads run for the one that waits for them: if that leaves with an error, they are ended.

    An interrupt reaches the main thread alone, which would otherwise wait for the compilers of the others.
    """

    def __init__(self) -> None:
        self.ended = False
        self._processes: set[subprocess.Popen[str]] = set()
        self._changing = threading.Lock()

    def enrol(self) -> None:
        """The tools of the calling thread are among these from now on."""
        setattr(threading.current_thread(), _OWN, self)

    def begin(self, process: subprocess.Popen[str]) -> None:
        """Ends the process at once if the others have been ended."""
        with self._changing:
            self._processes.add(process)
            if self.ended:
                _end(process)

    def finish(self, process: subprocess.Popen[str]) -> None:
        """The process has ended."""
        with self._changing:
            self._processes.discard(process)

    def __enter__(self) -> RunningTools:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        if kind is None:
            return
        with self._changing:
            self.ended = True
            for process in self._processes:
                _end(process)


def compiler_seconds() -> float | None:
    """The time limit of a compilation (None: there is none), from the environment. Raises `ArgumentError` if it is not
    a number of seconds.
    """
    given = os.environ.get(_VARIABLE, "").strip()
    try:
        seconds = float(given) if given else COMPILER_SECONDS
    except ValueError:
        seconds = math.nan
    if not seconds >= 0:
        raise ArgumentError(f"{_VARIABLE}={given!r} is not a number of seconds, such as 600, or 0 for no limit")
    return seconds if 0 < seconds < threading.TIMEOUT_MAX else None


def run(
    command: Sequence[str], folder: Path | None = None, *, bounded: bool = True
) -> subprocess.CompletedProcess[str]:
    """Runs a tool, with messages in English. The return code is 127 if the tool cannot be started, and 124 if it takes
    longer than `PROBE_SECONDS` (if `bounded`) or `compiler_seconds`.

    It leads a session of its own, all of which is ended where the tool is. Raises `ToolchainError` if this process
    cannot start any tool.
    """
    seconds = PROBE_SECONDS if bounded else compiler_seconds()
    try:
        process = subprocess.Popen(
            command, cwd=folder, env={**os.environ, "LC_ALL": "C"}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        if error.errno in SHORTAGES:
            raise ToolchainError(f"{command[0]} cannot be started: {SHORTAGES[error.errno]}") from error
        return subprocess.CompletedProcess(list(command), 127, "", str(error))
    tools: RunningTools | None = getattr(threading.current_thread(), _OWN, None)
    with process:
        try:
            if tools:
                tools.begin(process)
            out, said = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            _end(process)
            limit = "" if bounded else f", the limit that {_VARIABLE} sets (0: none)"
            said = f"it does not answer within {seconds:g} s{limit}"
            return subprocess.CompletedProcess(list(command), _TOO_LONG, "", said)
        except BaseException:
            _end(process)
            raise
        finally:
            if tools:
                tools.finish(process)
    return subprocess.CompletedProcess(list(command), process.returncode, out, said)


def _end(process: subprocess.Popen[str]) -> None:
    """Ends a tool with all that it has started."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


def run_checked(command: Sequence[str], folder: Path) -> None:
    """Runs a tool; raises `ToolchainError` with the command and the tool's own message if it fails."""
    answer = run(command, folder, bounded=False)
    if answer.returncode != 0:
        failed = f"{Path(command[0]).name} {_ending(answer.returncode)}"
        raise ToolchainError(f"{failed}:\n  {shlex.join(command)}\n{answer.stderr.strip()}".rstrip())
    if answer.stderr.strip():
        _log.info("%s", answer.stderr.strip())


def answer_behind(command: Sequence[str], state: FileState, environment: Sequence[str] = ()) -> str:
    """The difference of compilers that a command may stand for: the version that it says; nothing for a command that
    is a compiler itself. Raises `CalledProcessError` if it fails.

    `state` is that of its file, and `environment` names the variables on which the answer depends.
    """
    if is_compiler(state):
        return ""
    return _said(tuple(command), state, tuple((name, os.environ.get(name)) for name in environment))


@functools.lru_cache(maxsize=64)
def _said(command: tuple[str, ...], _state: FileState, _environment: tuple[tuple[str, str | None], ...]) -> str:
    return said_version(command)


def said_version(command: Sequence[str]) -> str:
    """The answer of a command to ``--version``. Raises `CalledProcessError` if it fails."""
    answer = run([*command, "--version"])
    answer.check_returncode()
    return answer.stdout


def _ending(code: int) -> str:
    """How a tool has failed, in words."""
    if code == _TOO_LONG:
        return "was given up"
    if code > 0:
        return f"failed (return code {code})"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    memory = "; the machine may have run out of memory" if -code == signal.SIGKILL else ""
    return f"was ended by {name}{memory}"
