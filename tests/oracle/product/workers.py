"""Processes that judge chunks of seeds; one that ends, or says nothing for long, is a find, too."""

from __future__ import annotations

import multiprocessing
import resource
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

from tests.oracle.fuzzing import SUMS, Campaign, Trial, Wanted
from tests.oracle.product.finds import Find, crashing, minimised, slow
from tests.oracle.product.state import DEFECTS, STRICT, STRICT_SUMS, WRONG, reason

#: How many seeds are one chunk; how many of its programs are run after each pass, and compiled, in one source.
CHUNK = 96
WANTED = Wanted(CHUNK, 1, 4)
#: How much memory a process may have: a program that needs more raises.
MEMORY = 6 << 30
#: Kinds whose code runs on simulated GPUs, which reserve more addresses than they use.
SIMULATED = ("gpu", "cooperative", "ptx", "blocks")
#: How long a process may be silent, in seconds in which it was listened to: a machine that sleeps is no find.
SILENCE = 400.0
#: How much of the time between two looks at a process counts at most.
LOOK = 2.0
#: The kinds of chunks, in turn.
TURNS = (
    *("whole", "any", "whole", "cores", "whole", "whole", "groups", "whole", "facts", "whole"),
    *("whole", "cores", "whole", "stages", "whole", "lanes", "any", "whole", "gpu", "whole"),
    *("whole", "patterns", "whole", "ranks", "sums", "whole", "derived", "sums", "cooperative", "gradients"),
    *("whole", "ranked", "ptx", "runs", "blocks", "rows"),
)
#: Kinds that take long: fewer of them.
SLOW = {
    "gpu": 4, "cooperative": 8, "ranks": 4, "patterns": 4, "derived": 6, "ranked": 12, "stages": 2, "ptx": 12,
    "blocks": 4, "rows": 4,
}  # fmt: skip


@dataclass
class Chunk:
    """A chunk under way: its process, and the program that it is at."""

    number: int
    kind: str
    process: Any
    pipe: Connection
    counts: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    at: int = 0
    silent: float = 0.0
    looked: float = field(default_factory=time.monotonic)

    def looked_at(self) -> bool:
        """Whether nothing has come from it for too long, as often as it is asked for."""
        now = time.monotonic()
        self.silent += min(now - self.looked, LOOK)
        self.looked = now
        return self.silent > SILENCE

    def end(self) -> None:
        """Stop the process, whatever it does."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


def begun(number: int, seed: int, kinds: tuple[str, ...]) -> Chunk:
    """A process for the chunk of this number: which programs these are follows from it, and from the first seed."""
    kind = kinds[number % len(kinds)]
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_judge, args=(kind, seed + number * CHUNK, theirs), daemon=True)
    process.start()
    theirs.close()
    return Chunk(number, kind, process, ours)


def heard(chunks: list[Chunk], seconds: float) -> Iterator[tuple[Chunk, str, Any]]:
    """What processes say: ``at`` a seed, ``trial``, ``find``; ``done``, or ``ended`` where one is gone."""
    by_pipe = {chunk.pipe: chunk for chunk in chunks}
    for pipe in wait(list(by_pipe), seconds):
        chunk = by_pipe[pipe]  # type: ignore[index]
        chunk.silent = 0.0
        try:
            yield chunk, *chunk.pipe.recv()
        except (EOFError, OSError):
            yield chunk, "ended", None


def _judge(kind: str, first: int, pipe: Connection) -> None:
    """In the process: the programs of a chunk."""

    if kind not in SIMULATED:  # the others lift the limit for their simulated GPUs
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, resource.getrlimit(resource.RLIMIT_DATA)[1]))

    def told() -> Iterator[int]:
        for seed in range(first, first + CHUNK // SLOW.get(kind, 1)):
            pipe.send(("at", seed))
            yield seed

    count = CHUNK // SLOW.get(kind, 1)
    campaign = Campaign(kind, told(), Wanted(count, WANTED.run, WANTED.compiled), shrinks=False)
    for trial in campaign.trials():
        strict = trial.came == STRICT
        noted = [*sorted(trial.by), *([STRICT_SUMS] if strict and SUMS in trial.by else [])]
        pipe.send(("trial", (trial.came, noted, reason(trial.verdict) if strict else "", trial.seed, trial.seconds)))
        if trial.came in (*WRONG, *DEFECTS, STRICT):
            pipe.send(("at", trial.seed))
            pipe.send(("find", _find(campaign, trial)))
    pipe.send(("done", None))


def _find(campaign: Campaign, trial: Trial) -> Find:
    """A find, made small."""
    if trial.script is None:
        return Find(trial.name, trial.seed, trial.came, trial.wrong)
    if trial.came == "raised" and not trial.script.names:  # a command that raises
        lines, declarations = crashing(trial.script.lines, trial.script.declarations, trial.verdict)
        return Find(trial.name, trial.seed, trial.came, trial.wrong, tuple(lines), declarations)
    if trial.came == "slow":
        lines, declarations = slow(trial.script.slowest.lines, trial.script.declarations)
        return Find(trial.name, trial.seed, trial.came, trial.wrong, tuple(lines), declarations)
    try:
        small = minimised(trial.script, lambda script: campaign.again(trial, script))
    except Exception:  # what is found is kept as it is
        return Find(trial.name, trial.seed, trial.came, f"{trial.wrong}\n{traceback.format_exc()}")
    wrong = trial.wrong or trial.verdict
    return Find(trial.name, trial.seed, trial.came, wrong, tuple(small.lines), small.declarations)
