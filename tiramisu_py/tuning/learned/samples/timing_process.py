"""A process that times kernels: one that takes too long, or that ends the process, costs no more than its sample.

The parent writes requests, the child answers each with a sample. A kernel travels once, by its key; its library is in
the cache that both share.
"""

from __future__ import annotations

import os
import pickle
import select
import subprocess
import sys
from collections.abc import Callable
from typing import Any, BinaryIO

from tiramisu_py import Kernel
from tiramisu_py.errors import TiramisuError
from tiramisu_py.tuning.learned.samples.ranges import Sizes
from tiramisu_py.tuning.learned.samples.sample_store import Sampled

#: The seconds that the child may take to be there, beyond the limit of a sample.
STARTING = 60.0
_PROGRAM = "from tiramisu_py.tuning.learned.samples.clocks import serve; serve()"


class TimingProcess:
    """The parent's side: a child that is started when it is needed, and again after it was ended."""

    def __init__(self, limit: float, repeats: int) -> None:
        self.limit, self._repeats = limit, repeats
        self._child: subprocess.Popen[bytes] | None = None
        self._sent: set[str] = set()

    def time(self, key: str, kernel: Kernel, sizes: Sizes) -> Sampled:
        """The time of a kernel at some sizes; without one, the reason."""
        child = self._started()
        assert child.stdin is not None and child.stdout is not None
        try:
            pickle.dump((key, None if key in self._sent else kernel, dict(sizes)), child.stdin)
            child.stdin.flush()
            self._sent.add(key)
            ready, _, _ = select.select([child.stdout], [], [], self.limit)
            if not ready:
                self.close()
                return Sampled(None, reason=f"it did not end in {self.limit:g} s")
            found = pickle.load(child.stdout)
        except (EOFError, BrokenPipeError):
            status = child.wait()
            self.close()
            ended = f"by signal {-status}" if status < 0 else f"with status {status}"
            return Sampled(None, reason=f"the process that ran it ended {ended}")
        assert isinstance(found, Sampled)
        return found

    def close(self) -> None:
        """Ends the child."""
        child, self._child = self._child, None
        self._sent.clear()
        if child is not None:
            child.kill()
            child.wait()
            for stream in (child.stdin, child.stdout):
                if stream is not None:
                    stream.close()

    def _started(self) -> subprocess.Popen[bytes]:
        """The child, once it says that it is there: the time that it takes is no sample's."""
        if self._child is None or self._child.poll() is not None:
            self.close()
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(each for each in sys.path if each)}
            child = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, str(self._repeats)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment,
            )  # fmt: skip
            assert child.stdout is not None
            ready, _, _ = select.select([child.stdout], [], [], STARTING)
            if not ready or not child.stdout.read(1):
                child.kill()
                child.wait()
                raise TiramisuError("the process that times kernels does not start: collect(limit=None) does without")
            self._child = child
        return self._child


def answer(
    requests: BinaryIO,
    answers: BinaryIO,
    timed: Callable[[Kernel, Sizes], Sampled],
    explained: tuple[type[Exception], ...],
) -> None:
    """The child's side: answers requests until there are no more; `explained` errors become the reason."""
    kernels: dict[str, Any] = {}
    answers.write(b"\n")
    answers.flush()
    while True:
        try:
            key, kernel, sizes = pickle.load(requests)
        except EOFError:
            return
        if kernel is not None:
            kernels[key] = kernel
        try:
            found = timed(kernels[key], sizes)
        except explained as error:
            found = Sampled(None, reason=str(error) or type(error).__name__)
        pickle.dump(found, answers)
        answers.flush()
