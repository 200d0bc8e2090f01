"""Random cooperative programs on two or three ranks: stencils, sums and steps of time, in parts on GPUs and cores of
ranks, their arrays in pieces, with copies and messages derived; then damaged."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from tests.oracle.generators.cooperative_random import CooperativeCommands
from tests.oracle.generators.script import Script
from tests.oracle.judges.plain import integers
from tiramisu_py.interpret import InterpretError

#: (R, G, H): nothing at all, one of three parts empty, all in one, each with something.
SPLITS = ((4, 1, 3), (5, 0, 2), (5, 2, 2), (3, 1, 3), (6, 2, 4), (1, 0, 1), (4, 4, 4), (2, 0, 0))
STEPS = 3


class RankedCommands(CooperativeCommands):
    """Writes an algorithm, its parts, its pieces and what is derived."""

    def __init__(self, choice: random.Random) -> None:
        super().__init__(choice, Script(), [])
        self.columns = choice.random() < 0.4

    def written(self) -> Script:
        """One to three stages, parted (mostly) alike, whose input and output are in pieces."""
        do = self.script.do
        do("R, G, H = tm.params('R G H')")
        do("r, c, k, t = tm.iters('r c k t')")
        do("f = tm.Function('f', params=[R, G, H], assume='R >= 1 and 0 <= G and G <= H and H <= R')")
        if self.choice.random() < 0.3:
            last, names = self._steps()
        else:
            last, names = self._stages()
        do(f"f.outputs({last})")
        self.script.declared()
        stages = [*names, *([] if last in names else ["f['p_out']"])]
        alike = self._cut()
        for name in stages:
            if not self._attempt(f"{name}.partition(r, {alike if self.choice.random() < 0.9 else self._cut()})"):
                self._attempt(f"{name}.partition(r, {alike})")
        where = self._pieces()
        for name in ("a", stages[-1]):
            where = where if self.choice.random() < 0.7 else self._pieces()
            self._attempt(f"{name}.distribute_array({self._iterators()}, rank={where})")
        if self.choice.random() < 0.15:
            self._attempt(f"{self.choice.choice(names)}.store_in(tm.PINNED)")
        self._attempt(f"f.derive_transfers({self.choice.choice(('', '', 'overlap=True'))})")
        if self.choice.random() < 0.08:
            self._damaged()
        elif self.choice.random() < 0.35:
            idle = [s.name for s in self.script.program.statements.values() if s.origin.derived]
            if idle:
                self._attempt(f"f.remove(f['{self.choice.choice(idle)}'])")
        return self.script

    # -- algorithm

    def _iterators(self) -> str:
        return "[r, c]" if self.columns else "[r]"

    def _at(self, name: str, by: int, more: str = "") -> str:
        return f"{name}[{more}r + {by}{', c' if self.columns else ''}]"

    def _stages(self) -> tuple[str, list[str]]:
        count, columns = self.choice.choice((1, 2, 2, 3)), ", 3" if self.columns else ""
        margin, axis = 2 * count, ", c: 3" if self.columns else ""
        self.script.do(f"a = f.input('a', tm.int32, [R + {margin}{columns}])")
        names, read = [], ["a"]
        for name in "pqs"[:count]:
            margin -= 2
            terms = [self._at(read[-1], self.choice.randint(0, 2))]
            for _ in range(self.choice.choice((0, 1, 1, 2))):
                terms.append(self._at(self.choice.choice(read), self.choice.randint(0, 2)))
            if self.choice.random() < 0.12 and read[-1] == "a" and not self.columns:
                terms.append(f"a[R + {margin} - r]")
            domain, expr = f"{{r: R + {margin}{axis}}}", " + 2 * ".join(terms)
            if self.choice.random() < 0.15:
                self.script.do(f"{name} = f.reduction('{name}', {domain}, {{k: 3}}, tm.sum, k * ({expr}))")
            else:
                self.script.do(f"{name} = f.computation('{name}', {domain}, {expr})")
            names.append(name)
            read.append(name)
        return names[-1], names

    def _steps(self) -> tuple[str, list[str]]:
        columns, axis = (", 3", ", c: 3") if self.columns else ("", "")
        self.script.do(f"a = f.input('a', tm.int32, [R{columns}])")
        back, on = self.choice.choice((0, 1, 1, 2)), self.choice.choice((0, 1, 1, 2))
        edge = f"(t == 0) | (r < {back}) | (r >= R - {on})"
        before = " - ".join(self._at("p", by, "t - 1, ") for by in (-back, on))
        expr = f"tm.select({edge}, {self._at('a', 0)}, {before})"
        self.script.do(f"p = f.computation('p', {{t: {STEPS}, r: R{axis}}}, lambda p: {expr})")
        if self.choice.random() < 0.5:
            self.script.do(f"p.store_in([t % 2, r{', c' if self.columns else ''}])")
        return f"p[{STEPS - 1}, r{', c' if self.columns else ''}]", ["p"]

    # -- places

    def _cut(self) -> str:
        return self.choice.choice((
            "[G, H], [tm.gpu(tile=2, ranks=0), tm.cores(ranks=0), tm.cores(ranks=1)]",
            "[G, H], [tm.gpu(tile=2, ranks=0), tm.cores(ranks=1), tm.gpu(tile=2, ranks=1)]",
            "[G, H], [tm.cores(ranks=0), tm.gpu(tile=2, ranks=0), tm.gpu(1, tile=2, ranks=0)]",
            "[G], [tm.gpu(tile=2, ranks=0), tm.gpu(tile=2, ranks=1)]",
            "[G], [tm.gpu(tile=2, chunk=2, ranks=0), tm.cores(ranks=1)]",
            "[G], [tm.gpu(tile=2, ranks=range(2)), tm.cores(ranks=2)]",
            "[2], [tm.gpu(tile=2, ranks=range(2)), tm.cores(ranks=2)]",
            "[H], [tm.cores(ranks=range(1, 3)), tm.gpu(tile=2, ranks=0)]",
            "tm.shares(1, 1), [tm.gpu(tile=2, ranks=1), tm.cores(ranks=0)]",
            "tm.shares(1, 0), [tm.gpu(tile=2, ranks=0), tm.cores(ranks=1)]",
            "[(G, R + 9), (0, G)], [tm.gpu(tile=2, ranks=1), tm.cores(ranks=0)]",
        ))  # fmt: skip

    def _pieces(self) -> str:
        return self.choice.choice((
            "tm.pieces(r, [H])", "tm.pieces(r, [G])", "tm.pieces(r, [H], ranks=[1, 0])", "tm.pieces(r, [2])", "0", "1",
            "tm.pieces(r, [G, H], ranks=[0, 0, 1])", "tm.pieces(r, [G, H], ranks=[0, 1, 1])",
            "tm.pieces(r, [G, H], ranks=[0, 1, 0])", "tm.pieces(r, tm.shares(1, 1), of=R)",
        ))  # fmt: skip


def random_ranked_script(seed: int) -> Script:
    """A random cooperative program on ranks; the same for the same seed."""
    return RankedCommands(random.Random(seed)).written()


def is_damaged(script: Script) -> bool:
    """Whether what was derived has been edited."""
    return not script.lines[-1].startswith("f.derive_transfers(")


def wrong_on_ranks(script: Script, seed: int, count: int, tries: int = 1) -> str:
    """What is wrong with a proven program at some sizes and times; empty where nothing is."""
    choice, f = random.Random(seed), script.function
    extents = script.program.algorithm.inputs["a"].shape
    for rows, first, second in choice.sample(SPLITS, count):
        params = {"R": rows, "G": first, "H": second}
        numbers = np.random.default_rng(seed).integers(-9, 9, integers(extents, params))
        given: dict[str, Any] = {"a": numbers.astype(np.int32), "G": first, "H": second}
        expected = f.evaluate(**given)
        for number in range(seed, seed + tries):
            try:
                found = f.simulate(seed=number, **given)
            except InterpretError as error:
                return f"at {params}, seed {number}: {error}"
            if not np.array_equal(found, expected):
                return f"at {params}, seed {number}: {found}, not {expected}"
    return ""
