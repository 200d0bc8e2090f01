"""Scripts run in forks of a process that has loaded tiramisu_py: to load it takes longer than most of them do.

A fork has a folder, an environment, arguments, and texts of its own, as a new process of Python has. What is not its
own is what Python read when it started: options of the interpreter, and the environment of libraries that are loaded.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from tests.fork_client import answer, asked
from tests.lacking import skip_for

ROOT = Path(__file__).resolve().parents[1]
TIMEOUT = 300.0
#: What every fork finds imported: all that a function needs up to its kernel, but for MPI, which begins when imported.
ROOMS = (
    "algorithm.evaluate.evaluate", "backends", "derive", "function", "interpret", "lower", "passes", "proof",
    "toolchain", "view",
)  # fmt: skip
MODULES = ("numpy.random", "tiramisu_py", *(f"tiramisu_py.{room}" for room in ROOMS))


def run(
    arguments: Sequence[str | Path],
    *,
    cwd: Path = ROOT,
    env: Mapping[str, str] | None = None,
    timeout: float = TIMEOUT,
    preloaded: tuple[tuple[str, str], ...] = (),
) -> subprocess.CompletedProcess[str]:
    """What `python ARGUMENTS` does: a script, or `-m` and a module, or `-c` and a text, and its own arguments.

    A test that fails for what this machine lacks is skipped.

    `preloaded` is the environment of the process that forks: libraries read theirs when they are loaded.
    """
    words = [str(word) for word in arguments]
    request = {"words": words, "cwd": str(cwd), "env": dict(env or os.environ), "descriptors": [0, 1, 2]}
    with Path(os.devnull).open() as nothing, tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        with asked(address(preloaded), request, [nothing.fileno(), out.fileno(), err.fileno()]) as connection:
            connection.settimeout(timeout)
            try:
                code = answer(connection)
            except TimeoutError as late:
                raise subprocess.TimeoutExpired(words, timeout) from late
        said = [_all_of(text.fileno()) for text in (out, err)]
    if code != 0:
        skip_for(said[1])
    return subprocess.CompletedProcess(words, code, *said)


def _all_of(number: int) -> str:
    return os.pread(number, os.fstat(number).st_size, 0).decode(errors="replace")


def address(preloaded: tuple[tuple[str, str], ...] = (), modules: Sequence[str] = ()) -> str:
    """Where `fork_client` asks a process of this one for forks; it has imported some more modules."""
    at = _parent(preloaded).started()
    if modules:
        answer(asked(at, {"modules": modules, "words": []}))
    return at


class _Parent:
    """A process that forks others; a new one is started where one has ended."""

    def __init__(self, preloaded: tuple[tuple[str, str], ...]) -> None:
        self.environment = {**os.environ, **dict(preloaded)}
        self.folder = tempfile.TemporaryDirectory(prefix="tiramisu_py-forks-")
        self.process: subprocess.Popen[bytes] | None = None
        _parents().append(self)
        atexit.register(self.end)

    def started(self) -> str:
        """Its address."""
        path = Path(self.folder.name, "asked")
        if self.process is None or self.process.poll() is not None:
            path.unlink(missing_ok=True)
            with socket.socket(socket.AF_UNIX) as listening:
                listening.bind(str(path))
                listening.listen(64)
                command = [sys.executable, "-m", "tests.forking", str(listening.fileno())]
                self.process = subprocess.Popen(
                    command, cwd=ROOT, env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                    pass_fds=[listening.fileno()], start_new_session=True,
                )  # fmt: skip
        return str(path)

    def used(self) -> float:
        """Its processor time in seconds, with that of all forks that have ended, and of what they started."""
        if self.process is None or self.process.poll() is not None:
            return 0.0
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")

    def end(self) -> None:
        """Ends it, and the forks that run."""
        if self.process is not None and self.process.poll() is None:
            assert self.process.stdin is not None
            self.process.stdin.close()
            self.process.wait()


@functools.cache
def _parent(preloaded: tuple[tuple[str, str], ...]) -> _Parent:
    return _Parent(preloaded)


@functools.cache
def _parents() -> list[_Parent]:
    return []


def used() -> float:
    """The processor time, in seconds, of the processes that fork, and of all forks that have ended."""
    return sum(parent.used() for parent in _parents())


# -- the process that forks


@dataclass(frozen=True)
class _Fork:
    """A fork that runs: its number, what becomes ready when it has ended, and who has asked for it."""

    pid: int
    ended: int
    connection: socket.socket

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)


@dataclass(frozen=True)
class _Request:
    words: Sequence[str]
    modules: Sequence[str] = ()
    cwd: str = "."
    env: Mapping[str, str] = field(default_factory=dict)
    descriptors: Sequence[int] = ()


class _Server:
    """Forks for all who ask, side by side."""

    def __init__(self, listening: socket.socket) -> None:
        self.listening = listening
        self.ready = selectors.DefaultSelector()
        self.forks: dict[int, _Fork] = {}

    def serve(self) -> int:
        """Forks until standard input ends; returns, in a fork, its exit code."""
        self.ready.register(0, selectors.EVENT_READ)
        self.ready.register(self.listening, selectors.EVENT_READ)
        while True:
            (key, _), *_ = self.ready.select()  # one at a time: it may close what others are about
            if key.fd == 0:
                for fork in self.forks.values():
                    fork.end()
                return 0
            if key.fileobj is self.listening:
                connection, request, given = _read(self.listening)
                if request is not None and not self._fork(connection, request):
                    return _forked(request, given)
                for number in given:
                    os.close(number)
            elif key.fd == key.data.ended:
                self._ended(key.data)
            else:  # nothing is said here: who has asked is gone
                self.ready.unregister(key.data.connection)
                key.data.end()

    def _fork(self, connection: socket.socket, request: _Request) -> bool:
        """Does what is asked for; False in a fork."""
        _imported(request.modules)
        if not request.words:
            _say(connection, 0)
            return True
        pid = os.fork()
        if pid == 0:
            os.setpgid(0, 0)
            self._close()
            connection.close()
            return False
        with contextlib.suppress(OSError):  # both do it: whoever comes first
            os.setpgid(pid, pid)
        fork = _Fork(pid, os.pidfd_open(pid), connection)
        self.forks[pid] = fork
        self.ready.register(fork.ended, selectors.EVENT_READ, fork)
        self.ready.register(connection, selectors.EVENT_READ, fork)
        return True

    def _ended(self, fork: _Fork) -> None:
        _, status = os.waitpid(fork.pid, 0)
        self.ready.unregister(fork.ended)
        with contextlib.suppress(KeyError):
            self.ready.unregister(fork.connection)
        _say(fork.connection, os.waitstatus_to_exitcode(status))
        os.close(fork.ended)
        del self.forks[fork.pid]

    def _close(self) -> None:
        """Leaves a fork without what is open here."""
        for fork in self.forks.values():
            fork.connection.close()
            os.close(fork.ended)
        self.ready.close()
        self.listening.close()


def _imported(modules: Sequence[str]) -> None:
    missing = [name for name in modules if name not in sys.modules]
    for name in missing:
        module = importlib.import_module(name)
        for each in getattr(module, "__all__", ()) if name.startswith("tiramisu_py") else ():  # a front loads nothing
            getattr(module, each)
    if missing:
        gc.collect()
        gc.freeze()


def _read(listening: socket.socket) -> tuple[socket.socket, _Request | None, list[int]]:
    """A request and what comes open with it; None from one who is gone before having said it."""
    connection, _ = listening.accept()
    line, given, _, _ = socket.recv_fds(connection, 1 << 16, 64)
    while line and not line.endswith(b"\n"):
        more = connection.recv(1 << 16)
        line = line + more if more else b""
    return connection, _Request(**json.loads(line)) if line else None, given


def _say(connection: socket.socket, code: int) -> None:
    with connection, contextlib.suppress(OSError):
        connection.sendall(b"%d\n" % code)


def _forked(request: _Request, given: Sequence[int]) -> int:
    above = [fcntl.fcntl(number, fcntl.F_DUPFD, 1 + max([*request.descriptors, *given])) for number in given]
    for number in given:
        os.close(number)
    for number, wanted in zip(above, request.descriptors, strict=True):
        os.dup2(number, wanted)
        os.close(number)
    os.chdir(request.cwd)
    os.environ.clear()
    os.environ.update(request.env)
    folders = filter(None, request.env.get("PYTHONPATH", "").split(os.pathsep))
    sys.path[1:1] = [folder for folder in folders if folder not in sys.path]
    try:
        _as_main([*request.words])
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _as_main(words: list[str]) -> None:
    if words[0] == "-m":
        sys.path[0] = os.getcwd()
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    elif words[0] == "-c":
        sys.path[0] = os.getcwd()
        sys.argv = ["-c", *words[2:]]
        main = sys.modules["__main__"] = ModuleType("__main__")
        exec(compile(words[1], "<string>", "exec"), vars(main))
    else:
        sys.path[0] = str(Path(words[0]).resolve().parent)
        sys.argv = words
        runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    _imported(MODULES)
    sys.exit(_Server(socket.socket(fileno=int(sys.argv[1]))).serve())
