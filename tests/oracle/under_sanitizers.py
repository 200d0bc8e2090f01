"""Run in a process of its own: proven random programs for cores, compiled with sanitizers.

Arguments: the first seed, how many programs are compiled, and the kinds of programs.
"""

from __future__ import annotations

import sys

import tiramisu_py as tm
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
                for params in [*small(drawn.script)[::3], *larger(drawn.script)]:
                    wrong = drawn.call(params).wrong_kernel(kernel)
                    assert not wrong, wrong
                done += 1
            seed += 1
    print("clean")


if __name__ == "__main__":
    sanitized_process()
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
