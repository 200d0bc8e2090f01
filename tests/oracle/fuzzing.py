"""Random programs before four judges that know nothing of each other: `test_fuzz` tries some, ``scripts/fuzz`` as many
as there is time for.

A program is made, proven and lowered once, for all of them; `tests.oracle.kinds` says which programs there are, and
what the judges do with them.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from tests.oracle.agreeing.agreement import NO_JUDGE
from tests.oracle.generators.script import Script, shrunk
from tests.oracle.kinds import KINDS, Drawn, Kind

#: How many programs are in one source.
TOGETHER = 8
#: What is noted of a judged program that has a reduction.
SUMS = "of reductions"


@dataclass(frozen=True)
class Wanted:
    """How many programs are judged; of the proven ones, run after each pass and compiled; and how many are refused."""

    judged: int
    run: int
    compiled: int = 0
    refused: int = 0

    def times(self, factor: int) -> Wanted:
        """So many times as many."""
        return Wanted(factor * self.judged, factor * self.run, factor * self.compiled, factor * self.refused)


@dataclass
class Trial:
    """A program before its judges: `came` is the verdict, or what is wrong; `by` are the judges that have seen it."""

    name: str
    seed: int
    came: str = ""
    wrong: str = ""
    #: What the judge says, wrong or not; and the program, where there is one.
    verdict: str = ""
    script: Script | None = None
    by: set[str] = field(default_factory=set)
    #: How long the check took the processor.
    seconds: float = 0.0

    @property
    def text(self) -> str:
        """What is wrong, and how to have it again."""
        again = f"scripts/fuzz --programs 1 --seed {self.seed} --kinds {self.name}"
        return f"{self.came}: {self.name}, seed {self.seed}: {self.wrong}\nagain: {again}"


class Campaign:
    """Programs of one kind from these seeds, until enough of them have been judged, run and compiled."""

    def __init__(self, name: str, seeds: Iterable[int], wanted: Wanted, shrinks: bool = True) -> None:
        self.name = name
        self.shrinks = shrinks
        self.kind: Kind = KINDS[name]
        self.seeds = seeds
        self.wanted = wanted
        #: How many have been before each judge, and how many were refused.
        self.seen: Counter[str] = Counter()
        self._waiting: list[tuple[Trial, Drawn]] = []

    @property
    def is_complete(self) -> bool:
        """Whether there are as many of each sort as are wanted."""
        return all(self.seen[sort] >= count for sort, count in asdict(self.wanted).items())

    def trials(self) -> Iterator[Trial]:
        """The programs, each as soon as all of its judges have spoken; code is compiled several in one source."""
        for seed in self.seeds:
            if self.is_complete:
                break
            trial = Trial(self.name, seed)
            drawn = self._said(trial, self._judged)
            if drawn is not None and trial.came == "accepted":
                self._said(trial, self._run, drawn)
            if drawn is not None and trial.came == "accepted" and self._is_compiled(drawn):
                self._waiting.append((trial, drawn))
            else:
                yield trial
            if len(self._waiting) == TOGETHER or self.is_complete:
                yield from self._compiled()
        yield from self._compiled()

    def _said(self, trial: Trial, judge: Any, *given: Any) -> Any:
        """What a judge says; an exception is something wrong, too."""
        try:
            return judge(trial, *given)
        except Exception as error:  # whatever it is: the next programs are tried all the same
            trial.came, trial.wrong, trial.verdict = "raised", traceback.format_exc(), type(error).__name__
            trial.script = getattr(error, "script", trial.script)
            return None

    def again(self, trial: Trial, script: Script) -> bool:
        """Whether another program comes to the same as that of a trial."""
        drawn = Drawn(trial.seed, script)
        try:
            found = self.kind.compared(script, trial.seed).kind
            if trial.came in ("raised", "loops") and found == "accepted" and self.kind.runs(script):
                found = "loops" if self.kind.wrong_loops(drawn) else found
            code = self.kind.wrong_code
            if trial.came in ("raised", "code") and found == "accepted" and code and self.kind.compiles(script):
                found = "code" if any(code([drawn])) else found
        except Exception as error:
            return trial.came == "raised" and trial.verdict == type(error).__name__
        return found == trial.came

    def _count(self, trial: Trial, judge: str) -> None:
        trial.by.add(judge)
        self.seen[judge] += 1

    def _judged(self, trial: Trial) -> Drawn:
        script, kind, seed = self.kind.made(trial.seed), self.kind, trial.seed
        trial.script = script
        trial.seconds = script.check()
        found = kind.compared(script, seed)
        self._count(trial, "judged")
        if found.text == NO_JUDGE:
            trial.by.remove("judged")
        elif any(each.is_reduction for each in script.program.algorithm.computations.values()):
            trial.by.add(SUMS)
        self.seen["refused"] += found.kind == "refused"
        trial.came, trial.verdict = found.kind, found.text
        if found.kind in kind.wrong and self.shrinks:
            shorter = shrunk(script, lambda s: kind.compared(s, seed).kind == found.kind)
            trial.wrong = f"{kind.compared(shorter, seed).text}\n{shorter.text}"
        elif found.kind not in kind.wrong and script.slowest.too_long:
            trial.came, trial.verdict = "slow", script.slowest.too_long
            trial.wrong = f"{trial.verdict}\n{script.text}"
        return Drawn(seed, script)

    def _run(self, trial: Trial, drawn: Drawn) -> None:
        if self.seen["run"] < self.wanted.run and self.kind.runs(drawn.script):
            wrong = self.kind.wrong_loops(drawn)
            self._count(trial, "run")
            if wrong:
                trial.came, trial.wrong = "loops", f"{wrong}\n{drawn.script.text}"

    def _is_compiled(self, drawn: Drawn) -> bool:
        left = self.wanted.compiled - self.seen["compiled"]
        wanted = left > 0 and self.kind.wrong_code is not None and self.kind.compiles(drawn.script)
        self.seen["compiled"] += wanted
        return wanted

    def _compiled(self) -> Iterator[Trial]:
        waiting, self._waiting = self._waiting, []
        assert self.kind.wrong_code is not None or not waiting
        found = self._found([drawn for _, drawn in waiting]) if waiting else []
        for (trial, _), (came, wrong) in zip(waiting, found, strict=True):
            trial.by.add("compiled")
            if wrong:
                trial.came, trial.wrong = came, wrong
            yield trial

    def _found(self, programs: Sequence[Drawn]) -> list[tuple[str, str]]:
        """What is wrong with the code of each; after an exception each is tried alone."""
        assert self.kind.wrong_code is not None
        try:
            found = zip(self.kind.wrong_code(programs), programs, strict=True)
            return [("code", wrong and f"{wrong}\n{each.script.text}") for wrong, each in found]
        except Exception:
            if len(programs) == 1:
                return [("raised", f"{traceback.format_exc()}\n{programs[0].script.text}")]
            return [found for each in programs for found in self._found([each])]
