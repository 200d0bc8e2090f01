"""One small change of one file of the compiler, and the tests that must fail under it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class NotOnceError(Exception):
    """The text that a mutation replaces is not in its file exactly once."""


@dataclass(frozen=True)
class Mutation:
    """A change: what is wrong then, the file below `tiramisu_py/`, the text and what replaces it, the tests.

    The tests are below `tests/`; each of them must fail under the change.
    """

    what: str
    file: str
    old: str
    new: str
    test: str

    @property
    def room(self) -> str:
        """The part of the compiler that it is in."""
        first, *rest = self.file.split("/")
        return f"{first}/{rest[0]}" if first == "backends" else first

    @property
    def path(self) -> Path:
        """The file, below the package."""
        return Path("tiramisu_py", self.file)

    def applied(self) -> str:
        """The text of its file with the change."""
        text = (ROOT / self.path).read_text()
        if text.count(self.old) != 1:
            raise NotOnceError(f"{self.what}: {self.old!r} is {text.count(self.old)} times in {self.file}, not once")
        return text.replace(self.old, self.new)
