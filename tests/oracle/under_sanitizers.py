"""Run in a process of its own: proven random programs for cores, of any kind, compiled with sanitizers.

Arguments: the first seed, how many programs are compiled, and the kinds of programs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import tiramisu_py as tm
from tests.oracle.agreeing import fact_judge, whole_agreement
from tests.oracle.kinds import KINDS, Drawn, larger, small
from tests.sanitizers import sanitized_process

TARGETS = ("x86-64", "x86-64-v3", "x86-64-v4")


def main(first: int, count: int, kinds: list[str]) -> None:
    """Raises for what is computed wrong; a sanitizer ends the process."""
    targets = [name for name in TARGETS if name == "x86-64" or name in tm.target().features]
    for name in kinds:
        done, seed = 0, first
        while done < count:
            drawn = Drawn(seed, KINDS[name].made(seed))
            f = drawn.script.function
            if f.check().ok and KINDS[name].compiles(drawn.script):
                target = targets[seed % len(targets)] if tm.target().features else None
                print(f"{name} {seed} for {target}", file=sys.stderr, flush=True)
                kernel = f.compile(sanitize=("address", "undefined"), target=target)
                for call in calls(name, drawn):
                    wrong = call.wrong_kernel(kernel)
                    assert not wrong, wrong
                done += 1
            seed += 1
    print("clean")


def calls(name: str, drawn: Drawn) -> Iterator[Any]:
    """Calls of a program of a kind, at some small sizes and larger ones."""
    script, seed = drawn.script, drawn.seed
    if name in ("facts", "runs"):
        yield from fact_judge.calls(script, seed)
    elif name == "whole":
        for params in [*whole_agreement.some(script, seed, 3), *whole_agreement.larger(script)]:
            yield whole_agreement.WholeCall(script, params, seed)
    else:
        yield from map(drawn.call, [*small(script)[::3], *larger(script)])


if __name__ == "__main__":
    sanitized_process()
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
