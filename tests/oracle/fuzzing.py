"""Random programs before four judges that know nothing of each other: `test_fuzz` tries some, ``scripts/fuzz`` as many
as there is time for.

A program is made, proven and lowered once, for all of them; `tests.oracle.kinds` says which programs there are, and
what the judges do with them.
"""

from __future__ import annotations

import argparse
import itertools
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from tests.oracle.kinds import KINDS, Drawn, Kind
from tests.oracle.script import shrunk
from tests.oracle.seeds import OF_SCRIPT, commits, first_of, of_commit

#: How many programs are in one source.
TOGETHER = 8


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
    by: set[str] = field(default_factory=set)

    @property
    def text(self) -> str:
        """What is wrong, and how to have it again."""
        again = f"scripts/fuzz --programs 1 --seed {self.seed} --kinds {self.name}"
        return f"{self.came}: {self.name}, seed {self.seed}: {self.wrong}\nagain: {again}"


class Campaign:
    """Programs of one kind from these seeds, until enough of them have been judged, run and compiled."""

    def __init__(self, name: str, seeds: Iterable[int], wanted: Wanted) -> None:
        self.name = name
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
        except Exception:  # whatever it is: the next programs are tried all the same
            trial.came, trial.wrong = "raised", traceback.format_exc()
            return None

    def _count(self, trial: Trial, judge: str) -> None:
        trial.by.add(judge)
        self.seen[judge] += 1

    def _judged(self, trial: Trial) -> Drawn:
        script, kind, seed = self.kind.made(trial.seed), self.kind, trial.seed
        found = kind.compared(script, seed)
        self._count(trial, "judged")
        self.seen["refused"] += found.kind == "refused"
        trial.came = found.kind
        if found.kind in kind.wrong:
            shorter = shrunk(script, lambda s: kind.compared(s, seed).kind == found.kind)
            trial.wrong = f"{kind.compared(shorter, seed).text}\n{shorter.text}"
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


def turns(names: Sequence[str], first: int, programs: int | None) -> Iterator[tuple[str, range]]:
    """Some seeds of each kind, then the next of each; `programs` of each in all."""
    for start in itertools.count(first, TOGETHER):
        left = TOGETHER if programs is None else min(TOGETHER, first + programs - start)
        if left <= 0:
            return
        yield from ((name, range(start, start + left)) for name in names)


def main(arguments: Sequence[str] | None = None) -> int:
    """Tries programs, says what failed and how to have it again; answers the exit code."""
    given = _options().parse_args(arguments)
    end = time.monotonic() + 60 * given.minutes
    counts: dict[str, Counter[str]] = {name: Counter() for name in given.kinds}
    failed = 0
    print(f"first seed {given.seed}", flush=True)
    for name, seeds in turns(given.kinds, given.seed, given.programs):
        if given.programs is None and time.monotonic() > end:
            break
        for trial in Campaign(name, seeds, Wanted(len(seeds), len(seeds), len(seeds))).trials():
            counts[name][trial.came] += 1
            counts[name].update(trial.by - {"judged"})
            if trial.wrong:
                failed += 1
                print(f"\n{trial.text}", flush=True)
    for name, found in counts.items():
        print(f"{name}: {', '.join(f'{count} {came}' for came, count in sorted(found.items())) or 'none'}")
    print(f"{failed} failed")
    return int(failed > 0)


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/fuzz", description=__doc__, formatter_class=_Formatter)
    parser.add_argument("--minutes", type=float, default=10.0, help="for so long; ten, if nothing is said")
    parser.add_argument("--programs", type=int, help="so many programs of each kind, however long they take")
    own = first_of(OF_SCRIPT, of_commit(commits()))
    parser.add_argument("--seed", type=int, default=own, help="the first seed; by default others with every commit")
    parser.add_argument("--kinds", nargs="+", choices=[*KINDS], default=[*KINDS], help="of these kinds only")
    return parser


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Keeps the lines of the description."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **{**more, "max_help_position": 30})


if __name__ == "__main__":
    raise SystemExit(main())
