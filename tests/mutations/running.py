"""Tests under a mutation: a package of links to the files of this one, but for the file that is changed.

Nothing is written to the checkout, and nothing that a wrong compiler makes is kept: the package, and the cache of
kernels, are in a folder that is removed.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.mutations.mutation import ROOT, Mutation

#: The exit status of pytest where tests have failed; any other than this and 0 is a fault of the run itself.
FAILED = 1
#: The status of a run that was ended after so many seconds.
ENDLESS, TIMEOUT = 124, 300.0
#: The folder of the tests comes after the package.
OPTIONS = ("-q", "-x", "-p", "no:cacheprovider", "--import-mode=append", "--tb=short")


@dataclass(frozen=True)
class Outcome:
    """What became of the tests of a mutation."""

    mutation: Mutation
    status: int
    output: str

    @property
    def is_caught(self) -> bool:
        """Whether a test has failed, or ended its process; a file that cannot be imported any more is not caught."""
        return self.status == FAILED or self.status < 0

    @property
    def failed(self) -> tuple[str, ...]:
        """The tests that have failed."""
        return tuple(re.findall(r"^FAILED tests/(.*?)(?: - .*)?$", self.output, re.MULTILINE))


class Overlay:
    """A folder for a package `tiramisu_py` in which one file after another is changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.package = folder / "package"
        self._later = itertools.count(1)

    def outcome(self, mutation: Mutation, *tests: str) -> Outcome:
        """Runs the test of a mutation, or others; a run that does not end shows nothing."""
        named = [f"tests/{test}" for test in tests or (mutation.test,)]
        command = [sys.executable, "-m", "pytest", *OPTIONS, *named]
        with self._with(mutation):
            try:
                ran = subprocess.run(
                    command, cwd=ROOT, env=self._environment(), capture_output=True, text=True, check=False,
                    timeout=TIMEOUT,
                )  # fmt: skip
            except subprocess.TimeoutExpired:
                return Outcome(mutation, ENDLESS, f"{named[0]} has not ended in {TIMEOUT:g} s")
        return Outcome(mutation, ran.returncode, ran.stdout + ran.stderr)

    def _environment(self) -> dict[str, str]:
        own = {
            "PYTHONPATH": os.pathsep.join([str(self.package), str(ROOT)]),
            "PYTHONSAFEPATH": "1",
            "PYTHONPYCACHEPREFIX": str(self.folder / "pycache"),
            "XDG_CACHE_HOME": str(self.folder / "cache"),
        }
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        return {**inherited, **own}

    @contextmanager
    def _with(self, mutation: Mutation) -> Iterator[None]:
        """The package with a changed file, whose time differs from that of all others, so that Python compiles it."""
        text = mutation.applied()
        try:
            for room in reversed(mutation.path.parents):
                self._linked(room)
            file = self.package / mutation.path
            file.unlink()
            file.write_text(text)
            time = next(self._later)
            os.utime(file, (time, time))
            yield
        finally:
            shutil.rmtree(self.package, ignore_errors=True)
            shutil.rmtree(self.folder / "cache", ignore_errors=True)

    def _linked(self, room: Path) -> None:
        """Makes a folder of the package, of links to its entries, in place of a link to the folder itself."""
        made = self.package / room
        made.unlink(missing_ok=True)
        made.mkdir()
        names = ["tiramisu_py"] if room == Path() else [entry.name for entry in (ROOT / room).iterdir()]
        for name in names:
            (made / name).symlink_to(ROOT / room / name)


@contextmanager
def overlay() -> Iterator[Overlay]:
    """An overlay in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="tiramisu_py-mutations-") as folder:
        yield Overlay(Path(folder))
