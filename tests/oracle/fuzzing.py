"""Random programs for as long as there is time, each before four judges that know nothing of each other.

The proof; a judge that enumerates executions and uses no isl; the loops, before and after the passes, on a machine that
does everything at the worst time; and the compiled code, on the simulated GPU where the program uses one. Programs with
ranks have the first three judges: their C needs mpirun.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.oracle import agreement, cooperative_agreement, gpu_agreement, rank_agreement
from tests.oracle.agreement import Verdict, compare, inputs, loops_of, wrong_results
from tests.oracle.cooperative_random import random_cooperative_script
from tests.oracle.cpu_judge import judged
from tests.oracle.cpu_random import random_cpu_script
from tests.oracle.gpu_random import random_gpu_script
from tests.oracle.judge import sizes
from tests.oracle.plain import points
from tests.oracle.random_programs import random_script
from tests.oracle.rank_patterns import random_pattern_script
from tests.oracle.rank_random import random_rank_script
from tests.oracle.script import Script, shrunk
from tests.oracle.seeds import commits, of_commit

#: What no program may be: accepted and wrong, or refused and right.
WRONG = ("unsound", "strict")


@dataclass(frozen=True)
class Kind:
    """Programs of a kind: how a seed makes one, what the proof and the judge say, what loops and code compute wrong."""

    made: Callable[[int], Script]
    compared: Callable[[Script, int], Verdict]
    wrong_loops: Callable[[Script, int], str]
    wrong_code: Callable[[Script, int], str]
    wrong: tuple[str, ...] = WRONG


def at_sizes(script: Script) -> list[dict[str, int]]:
    """All small sizes, and those of two larger ones, with full strips and a rest, for which a program is defined."""
    names = script.program.algorithm.params
    context = script.program.context.params().from_params()
    larger = [dict(zip(names, values, strict=False)) for values in ((9, 11, 7, 9), (17, 8, 5, 6))]
    return [*small(script), *(params for params in larger if points(context, params))]


def small(script: Script) -> list[dict[str, int]]:
    """All small sizes for which a program is defined."""
    return sizes(script.program, {1: 5, 2: 3}.get(len(script.program.algorithm.params), 2))


def wrong_machine(script: Script, seed: int) -> str:
    """What the loops compute wrong; nothing of programs whose lanes may load what nobody has written."""
    if "remainder='pad'" in script.text:
        return ""
    for which, function in loops_of(script).items():
        for params in at_sizes(script)[::2]:
            wrong = wrong_results(script, function, params, seed)
            if wrong:
                return f"{which} loops, {wrong}"
    return ""


def wrong_compiled(script: Script, seed: int) -> str:
    """What the compiled code computes wrong."""
    kernel = script.function.compile()
    storages, outputs = script.program.storages, script.program.algorithm.outputs
    for params in at_sizes(script):
        given = inputs(script, params, seed)
        got = kernel(**{name: np.copy(array) for name, array in given.items()}, **params)
        results = zip(outputs, got if len(outputs) > 1 else (got,), strict=True)
        wrong = compare(script, params, given, {storages[name].buffer: array for name, array in results})
        if wrong:
            return wrong
    return ""


def of_cores(script: Script, _seed: int) -> Verdict:
    """Lanes past the end are no executions, of which the judge knows."""
    if "remainder='pad'" in script.text:
        return Verdict("accepted" if script.function.check().ok else "refused")
    return agreement.verdict(script, judged, small(script))


def on_gpu(script: Script, seed: int) -> str:
    """What it computes wrong on the simulated GPU, or without one where it uses none."""
    if gpu_agreement.uses_gpu(script) or cooperative_agreement.copies(script):
        return cooperative_agreement.wrong_kernel(script, seed)
    return wrong_compiled(script, seed)


def no_code(_script: Script, _seed: int) -> str:
    return ""


def of_ranks(made: Callable[[int], Script]) -> Kind:
    """A few of them are refused that are right: the proof asks for what holds on any number of ranks."""
    return Kind(made, lambda s, _: rank_agreement.compared(s), rank_agreement.wrong_loops, no_code, ("unsound",))


KINDS: Mapping[str, Kind] = {
    "any": Kind(random_script, lambda s, _: agreement.compared(s), wrong_machine, wrong_compiled),
    "cores": Kind(random_cpu_script, of_cores, wrong_machine, wrong_compiled),
    "gpu": Kind(random_gpu_script, lambda s, _: gpu_agreement.compared(s), gpu_agreement.wrong_loops, on_gpu),
    "cooperative": Kind(
        random_cooperative_script, cooperative_agreement.compared, cooperative_agreement.wrong_loops, on_gpu
    ),
    "ranks": of_ranks(random_rank_script),
    "patterns": of_ranks(random_pattern_script),
}  # fmt: skip


def tried(kind: Kind, seed: int) -> tuple[str, str]:
    """What came of a program: its verdict, and what is wrong, with the shortest program that shows it; or nothing."""
    script = kind.made(seed)
    found = kind.compared(script, seed)
    if found.kind in kind.wrong:
        shorter = shrunk(script, lambda s: kind.compared(s, seed).kind == found.kind)
        return found.kind, f"{kind.compared(shorter, seed).text}\n{shorter.text}"
    if found.kind == "accepted":
        for what, judge in (("loops", kind.wrong_loops), ("code", kind.wrong_code)):
            wrong = judge(script, seed)
            if wrong:
                return what, f"{wrong}\n{script.text}"
    return found.kind, ""


def outcome(kind: Kind, seed: int) -> tuple[str, str]:
    """The same, where an exception is something wrong too."""
    try:
        return tried(kind, seed)
    except Exception as error:  # whatever it is: the next programs are tried all the same
        return "raised", f"{type(error).__name__}: {error}"


def turns(names: Sequence[str], first: int) -> Iterator[tuple[str, int]]:
    """One program of each kind, then the next of each."""
    return ((name, seed) for seed in itertools.count(first) for name in names)


def main(arguments: Sequence[str] | None = None) -> int:
    """Tries programs, says what failed and how to have it again; answers the exit code."""
    given = _options().parse_args(arguments)
    end = time.monotonic() + 60 * given.minutes
    counts: dict[str, Counter[str]] = {name: Counter() for name in given.kinds}
    failed = 0
    print(f"first seed {given.seed}", flush=True)
    for number, (name, seed) in enumerate(turns(given.kinds, given.seed)):
        if number == given.programs or (given.programs is None and time.monotonic() > end):
            break
        came, wrong = outcome(KINDS[name], seed)
        counts[name][came] += 1
        if wrong:
            failed += 1
            again = f"scripts/fuzz --programs 1 --seed {seed} --kinds {name}"
            print(f"\n{came}: {name}, seed {seed}: {wrong}\nagain: {again}", flush=True)
    for name, found in counts.items():
        print(f"{name}: {', '.join(f'{count} {came}' for came, count in sorted(found.items())) or 'none'}")
    print(f"{failed} failed")
    return int(failed > 0)


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/fuzz", description=__doc__, formatter_class=_Formatter)
    parser.add_argument("--minutes", type=float, default=10.0, help="for so long; ten, if nothing is said")
    parser.add_argument("--programs", type=int, help="so many programs, however long they take")
    parser.add_argument(
        "--seed", type=int, default=of_commit(commits()), help="the first seed; by default that of the commit"
    )
    parser.add_argument("--kinds", nargs="+", choices=[*KINDS], default=[*KINDS], help="of these kinds only")
    return parser


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Keeps the lines of the description."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **{**more, "max_help_position": 30})


if __name__ == "__main__":
    raise SystemExit(main())
