"""Random reductions near the edge of what is legal: few values in few elements, started, updated and read in any order.

One or two reductions, of which one may read the other, with a reader or none; then commands that order their starts,
updates and readers anew, cut and turn their loops, and keep fewer values at a time.
"""

from __future__ import annotations

import random

from tests.oracle.generators.random_algorithms import NEW_COPY, NEW_LOOPS
from tests.oracle.generators.random_programs import Commands
from tests.oracle.generators.script import Script, Seed, choices
from tiramisu_py.program.statement import Role, Statement

#: How often each writer of a command comes.
OFTEN = {
    "split": 5, "tile": 3, "order": 8, "inside": 8, "store_in": 4, "fold": 6, "reverse": 2, "interchange": 3,
    "reorder": 2, "compute_at": 3, "ends": 5, "factored": 2, "combined": 3, "separate": 3, "shift": 2, "parallelize": 2,
    "skew": 1, "coalesce": 1, "unroll": 1, "jam": 2, "vectorize": 1, "fused": 4, "sliding": 2, "wavefront": 1,
    "store_at": 2, "transform": 1,
}  # fmt: skip
VALUES = ("i: N", "i: N", "i: N, j: 2", "i: N, j: 3", "i: N, j: M", "i: 3, j: N", "i: N, j: (0, i + 1)")
TERMS = ("k: 3", "k: N", "k: (1, N)", "k: (0, i + 1)", "k: (i, N)", "k: 2, l: 2", "k: N, l: 2")


class SumCommands(Commands):
    """Gives commands that change the order of reductions, and where their values are."""

    def __init__(self, choice: random.Random, script: Script) -> None:
        super().__init__(choice, script)
        self.kinds = [kind for kind, weight in OFTEN.items() for _ in range(weight)]

    def _inside(self, statement: Statement, handle: str) -> str:
        """Start, update or reader of a reduction after, or before, another of these, inside of loops."""
        program = self.script.program
        name = self.choice.choice([s.source for s in program.statements.values() if s.role is Role.UPDATE])
        parts = [*program.statements_of(name), *self._readers(name)]
        first, second = self.choice.sample(parts, 2)
        loops = program.loop_names(second)
        level = self.choice.choice(("tm.root", *loops, *loops))
        return f"{self._handle(first)}.{self.choice.choice(('after', 'before'))}({self._handle(second)}, {level})"

    def _fold(self, statement: Statement, handle: str) -> str:
        name = self.choice.choice(self._computations())
        iterator = self.choice.choice(self.script.program.algorithm.computations[name].iterators)
        return f"{self._name(name)}.fold({iterator}, {self.choice.choice((1, 1, 2, 2, 3))})"

    def _jam(self, statement: Statement, handle: str) -> str:
        size = self.choice.choice((2, 3))
        return f"{handle}.unroll_and_jam({self._loop(statement)}, {size}, {next(self.fresh)}, {next(self.fresh)})"


def _declared(choice: random.Random) -> Script:
    """A script with its declarations."""
    script, values = Script(), choice.choice(VALUES)
    params = "NM" if "M" in values else "N"
    own = ", ".join(part.partition(":")[0] for part in values.split(", ") if ":" in part)
    script.do(f"{', '.join(params)}, = tm.params('{' '.join(params)}')")
    script.do("i, j, k, l, i0, i1, j0, j1, wave, u, v, w = tm.iters('i j k l i0 i1 j0 j1 wave u v w')")
    for group in (NEW_LOOPS, NEW_COPY):
        script.do(f"{', '.join(group)} = tm.iters('{' '.join(group)}')")
    least = " and ".join(f"{name} >= {choice.choice((0, 0, 1, 2))}" for name in params)
    script.do(f"f = tm.Function('f', params=[{', '.join(params)}], assume='{least}')")
    dtype = choice.choice(("int64", "int32", "uint8", "float64"))
    script.do(f"a = f.input('a', tm.{dtype}, [N + 3])")
    count = choice.choice((1, 1, 1, 2))
    for number in range(count):
        over, op = choice.choice(TERMS), choice.choice(("sum", "sum", "max"))
        term = choice.choice(("a[i]", "a[i] + k", f"tm.cast(tm.{dtype}, i + 2 * k)"))
        if number and choice.random() < 0.7:
            term = f"s0[{own}] + {term}"
        ordered = ", ordered=True" if choice.random() < 0.08 else ""
        script.do(
            f"s{number} = f.reduction('s{number}', {{{values}}}, {{{over}}}, tm.{op}, tm.cast(tm.{dtype}, {term})"
            f"{ordered})"
        )
    last, form = f"s{count - 1}", choice.random()
    read = "a[i]" if form < 0.1 else f"{last}[{own}] + a[i]"
    if form < 0.85:
        script.do(f"p = f.computation('p', {{{values}}}, {read})")
    both = count == 2 and choice.random() < 0.2
    script.do(f"f.outputs({'p' if form < 0.85 else last}{', s0' if both else ''})")
    script.declared()
    return script


def random_sum_script(seed: Seed) -> Script:
    """A random reduction with up to seven commands; the same for the same seed."""
    choice = choices(seed)
    return SumCommands(choice, _declared(choice)).write(choice.choice((1, 2, 3, 3, 4, 5, 6, 7)))
