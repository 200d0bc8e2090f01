"""Scripts run in forks of a process that has loaded tiramisu_py: to load it takes longer than most of them do.

A fork has a folder, an environment, arguments, and texts of its own, as a new process of Python has. What is not its
own is what Python read when it started: options of the interpreter, and the environment of libraries that are loaded.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.lacking import skip_for

ROOT = Path(__file__).resolve().parents[1]
TIMEOUT = 300.0
#: The rooms whose names are loaded before a fork, with those of the package: a front alone loads nothing.
ROOMS = ("lower", "passes", "backends", "build", "view", "interpret")


def run(
    arguments: Sequence[str | Path],
    *,
    cwd: Path = ROOT,
    env: Mapping[str, str] | None = None,
    timeout: float = TIMEOUT,
    preloaded: tuple[tuple[str, str], ...] = (),
) -> subprocess.CompletedProcess[str]:
    """What `python ARGUMENTS` does: a script, or `-m` and a module, and its own arguments.

    A test that fails for what this machine lacks is skipped.

    `preloaded` is the environment of the process that forks: libraries read theirs when they are loaded.
    """
    words = [str(word) for word in arguments]
    with tempfile.TemporaryDirectory(prefix="tiramisu_py-fork-") as folder:
        out, err = (Path(folder, name) for name in ("out", "err"))
        request = {"words": words, "cwd": str(cwd), "env": dict(env or os.environ), "out": str(out), "err": str(err)}
        code = _parent(preloaded).asked(request, timeout)
        said = [path.read_text(errors="replace") if path.exists() else "" for path in (out, err)]
    if code != 0:
        skip_for(said[1])
    return subprocess.CompletedProcess(words, code, *said)


class _Parent:
    """A process that forks others, one at a time; a new one is started where one has ended."""

    def __init__(self, preloaded: tuple[tuple[str, str], ...]) -> None:
        self.environment = {**os.environ, **dict(preloaded)}
        self.process: subprocess.Popen[bytes] | None = None
        self.seconds = 0.0
        _parents().append(self)
        atexit.register(self.end)

    def asked(self, request: dict[str, Any], timeout: float) -> int:
        """The exit code of a fork, whose processor time is added; raises `subprocess.TimeoutExpired`."""
        process = self._started()
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
        with selectors.DefaultSelector() as ready:
            ready.register(process.stdout, selectors.EVENT_READ)
            if not ready.select(timeout):
                self.end()
                raise subprocess.TimeoutExpired(request["words"], timeout)
        code, seconds = process.stdout.readline().split()
        self.seconds += float(seconds)
        return int(code)

    def end(self) -> None:
        """Ends it, with a fork that may be running."""
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def _started(self) -> subprocess.Popen[bytes]:
        if self.process is None or self.process.poll() is not None:
            command = [sys.executable, "-m", "tests.forking"]
            self.process = subprocess.Popen(
                command, cwd=ROOT, env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                start_new_session=True,
            )  # fmt: skip
        return self.process


@functools.cache
def _parent(preloaded: tuple[tuple[str, str], ...]) -> _Parent:
    return _Parent(preloaded)


@functools.cache
def _parents() -> list[_Parent]:
    return []


def used() -> float:
    """The processor time, in seconds, of all forks that have ended, and of what they started."""
    return sum(parent.seconds for parent in _parents())


def serve() -> int:
    """Forks for each request; answers its exit code and its processor time, and returns, in a fork, the former."""
    importlib.import_module("numpy.random")
    for front in ("tiramisu_py", *(f"tiramisu_py.{room}" for room in ROOMS)):
        package = importlib.import_module(front)
        for name in package.__all__:
            getattr(package, name)
    gc.collect()
    gc.freeze()
    for line in sys.stdin.buffer:
        child = os.fork()
        if child == 0:
            return _forked(json.loads(line))
        _, status, usage = os.wait4(child, 0)
        os.write(1, b"%d %f\n" % (os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime))
    return 0


def _forked(request: dict[str, Any]) -> int:
    for number, path in ((1, request["out"]), (2, request["err"])):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    try:
        _as_main(request["words"])
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
    else:
        sys.path[0] = str(Path(words[0]).resolve().parent)
        sys.argv = words
        runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    sys.exit(serve())
