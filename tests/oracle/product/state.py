"""What a long run has done so far, in a file from which the next one goes on."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FORMAT = 1
#: Verdicts that are wrong: a program is accepted, and yet a judge, its loops or its code are not right.
WRONG = ("unsound", "loops", "code")
#: Verdicts that name another defect: an exception, a process that ended or did not, a line or a check that took long,
#: exchanges not derived or too many.
DEFECTS = ("raised", "ended", "hangs", "slow", "not proven", "unneeded")
#: Refused though right; and those of them with a reduction.
STRICT, STRICT_SUMS = "strict", "strict, of reductions"


@dataclass
class State:
    """Counts of programs by kind and verdict, the finds, and the chunks of seeds that are left to do."""

    seed: int
    next: int = 0
    #: Chunks that were under way.
    unfinished: list[int] = field(default_factory=list)
    seconds: float = 0.0
    processes: int = 1
    counts: dict[str, Counter[str]] = field(default_factory=dict)
    reasons: Counter[str] = field(default_factory=Counter)
    #: Each find: its kind, seed, verdict, and after how many programs it came.
    finds: list[dict[str, Any]] = field(default_factory=list)
    #: The commits of the code that was tried, in order.
    code: list[str] = field(default_factory=list)
    #: The seconds that the slowest check took its processor, and the program's kind and seed.
    slowest: tuple[float, str] | None = None

    def has_taken(self, seconds: float, program: str) -> None:
        """Note how long a check took."""
        if self.slowest is None or seconds > self.slowest[0]:
            self.slowest = (seconds, program)

    def total(self, *sorts: str) -> int:
        """How many programs of all kinds had one of these verdicts, or were before one of these judges."""
        return sum(counted[sort] for counted in self.counts.values() for sort in sorts)

    @property
    def programs(self) -> int:
        """How many programs have been judged."""
        return self.total("judged")

    def taken(self) -> int:
        """The next chunk of seeds, which is under way from now on."""
        waiting = self.unfinished.pop(0) if self.unfinished else self.next
        self.next = max(self.next, waiting + 1)
        return waiting

    def add_find(self, kind: str, seed: int, came: str) -> bool:
        """Note what has been found; False where it is known."""
        if any((each["kind"], each["seed"]) == (kind, seed) for each in self.finds):
            return False
        self.finds.append({"kind": kind, "seed": seed, "came": came, "after": self.programs})
        return True

    def write(self, folder: Path, under_way: list[int]) -> None:
        """To the file, completely or not at all; what is under way is to be done again."""
        folder.mkdir(parents=True, exist_ok=True)
        text = {
            "format": FORMAT, "seed": self.seed, "next": self.next,
            "unfinished": sorted({*under_way, *self.unfinished}), "seconds": round(self.seconds, 1),
            "processes": self.processes, "counts": self.counts, "reasons": self.reasons, "finds": self.finds,
            "code": self.code, "slowest": self.slowest,
        }  # fmt: skip
        part = folder / "state.part"
        part.write_text(json.dumps(text, indent=1) + "\n")
        part.replace(folder / "state.json")


def known(folder: Path, seed: int) -> State:
    """The state in a folder, or a new one that begins with a seed."""
    path = folder / "state.json"
    if not path.exists():
        return State(seed)
    text = json.loads(path.read_text())
    if text.pop("format") != FORMAT:
        raise SystemExit(f"{path} is of another version: name another folder")
    counts = {kind: Counter(found) for kind, found in text.pop("counts").items()}
    slowest = (float(text["slowest"][0]), str(text["slowest"][1])) if text.get("slowest") else None
    return State(**{**text, "counts": counts, "reasons": Counter(text["reasons"]), "slowest": slowest})


_SPECIFIC = (
    (re.compile(r"\[[^\]]*\]"), "[..]"), (re.compile(r"\bat [A-Z] = .*"), ""), (re.compile(r"'[^']*'"), "'..'"),
    (re.compile(r"\b(?:[a-z]\w*_)?[acptxyijklmnuvw]\d*\b(?!\w)"), "x"), (re.compile(r"-?\d+"), "n"),
)  # fmt: skip


def reason(text: str) -> str:
    """A message without names and numbers, so that messages of one form are counted together."""
    line = text.removeprefix("the judge finds nothing: ").splitlines()[0] if text else ""
    for pattern, general in _SPECIFIC:
        line = pattern.sub(general, line)
    return re.sub(r"\s+", " ", line).strip(" ,")[:160]
