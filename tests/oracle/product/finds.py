"""What has been found: a program that a judge disagrees with, made small, in a file that a test replays.

``tests/found`` has those that have been mended: all judges agree about them from then on.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.oracle.generators.script import CHECK, Script, replayed, shrunk

#: How long a program is made smaller at most.
SECONDS = 60.0
_DECLARED = re.compile(r"(\w+) = f\.")


@dataclass(frozen=True)
class Find:
    """A program of a kind and a seed, and what came of it; `lines` are the script, the first ones declarations."""

    kind: str
    seed: int
    came: str
    wrong: str
    lines: tuple[str, ...] = ()
    declarations: int = 0

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"{self.kind}_{self.seed}_{self.came.replace(' ', '_')}.json"

    def write(self, folder: Path) -> Path:
        """To a file that a person can read."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / self.name
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")
        return path

    def script(self) -> Script:
        """The program."""
        return replayed(self.lines, self.declarations)


def read(path: Path) -> Find:
    """What a file says."""
    known = json.loads(path.read_text())
    return Find(**{**known, "lines": tuple(known["lines"])})


def minimised(script: Script, still: Callable[[Script], bool], seconds: float = SECONDS) -> Script:
    """The script without commands and declarations that do not matter; as small as there is time for."""
    end = time.monotonic() + seconds

    def bad(shorter: Script) -> bool:
        try:
            return time.monotonic() < end and still(shorter)
        except Exception:  # another failure than the one that is looked for
            return False

    return _fewer_declarations(shrunk(script, bad), bad)


def crashing(lines: Sequence[str], declarations: int, name: str, seconds: float = SECONDS) -> tuple[list[str], int]:
    """Lines the last of which raises an exception of this name, without those that do not matter."""
    return _fewer(lines, declarations, lambda *fewer: _raises(*fewer, name), seconds)


def slow(lines: Sequence[str], declarations: int, seconds: float = SECONDS) -> tuple[list[str], int]:
    """Lines the last of which, or the check as the last, takes longer than it may, without those that do not matter."""
    return _fewer(lines, declarations, _is_slow, seconds)


def _fewer(
    lines: Sequence[str], declarations: int, bad: Callable[[Sequence[str], int], bool], seconds: float
) -> tuple[list[str], int]:
    """The lines without those before the last one that are not needed for something bad."""
    end, kept, position = time.monotonic() + seconds, [*lines], len(lines) - 2
    while position >= 0 and time.monotonic() < end:
        declared = position < declarations
        fewer = [*kept[:position], *kept[position + 1 :]]
        fewer = _with_outputs(fewer, kept[position]) if declared else fewer
        if bad(fewer, declarations - declared):
            kept, declarations = fewer, declarations - declared
        position -= 1
    return kept, declarations


def _raises(lines: Sequence[str], declarations: int, name: str) -> bool:
    try:
        replayed(lines[:-1], declarations).attempt(lines[-1])
    except Exception as error:
        return type(error).__name__ == name and lines[-1] in "".join(getattr(error, "__notes__", []))
    return False


def _is_slow(lines: Sequence[str], declarations: int) -> bool:
    try:
        script = replayed(lines[:-1], declarations)
        if len(script.lines) < len(lines) - 1:
            return False
        script.check() if lines[-1] == CHECK else script.attempt(lines[-1])
    except Exception:  # something that is used is not there
        return False
    return bool(script.slowest.too_long) and script.slowest.lines[-1] == lines[-1]


def _fewer_declarations(script: Script, bad: Callable[[Script], bool]) -> Script:
    """Without declarations that can be left out; outputs are those that are left."""
    position = 0
    while position < script.declarations:
        if script.lines[position].startswith("f.outputs("):  # without them nothing is compared
            position += 1
            continue
        lines = [*script.lines[:position], *script.lines[position + 1 :]]
        shorter = _declared(_with_outputs(lines, script.lines[position]), script.declarations - 1)
        if shorter is not None and len(shorter.lines) == len(lines) and bad(shorter):
            script = shorter
        else:
            position += 1
    return script


def _declared(lines: Sequence[str], declarations: int) -> Script | None:
    try:
        return replayed(lines, declarations)
    except Exception:  # something that is used is not declared
        return None


def _with_outputs(lines: Sequence[str], gone: str) -> list[str]:
    """The lines, with outputs that do not name what is gone."""
    name = _DECLARED.match(gone)
    found = []
    for line in lines:
        if line.startswith("f.outputs(") and name is not None:
            kept = [each for each in line[len("f.outputs(") : -1].split(", ") if each != name[1]]
            found.append(f"f.outputs({', '.join(kept)})")
        else:
            found.append(line)
    return found
