"""Random programs whose places and bounds are values, some of which are declared to be increasing or a permutation.

Others read at values that a condition bounds, or keep rows one after another in an array of one dimension.
"""

from __future__ import annotations

import random

from tests.oracle.generators.random_algorithms import NEW_COPY, NEW_LOOPS
from tests.oracle.generators.random_programs import Commands
from tests.oracle.generators.script import Script, Seed, choices

#: What a command may do here: loops in another order, on threads, in lanes, in parts.
COMMANDS = (
    "split", "parallelize", "parallelize", "parallelize", "vectorize", "vectorize", "vectorize", "unroll", "reorder",
    "interchange", "reverse", "skew", "shift", "tile", "combined", "factored", "separate",
)  # fmt: skip


class FactAlgorithms:
    """Writes one computation, ``m``, of an input ``a`` and of indices ``o`` with or without declared facts."""

    def __init__(self, choice: random.Random) -> None:
        self.choice = choice
        self.script = Script()

    def written(self) -> Script:
        """A scatter, a sum by keys, values or sums of rows, guarded reads, or rows in one dimension."""
        for line in self._start():
            self.script.do(line)
        kinds = ("scatter", "scatter", "keyed", "rows", "rows", "sums", "guarded", "linear")
        getattr(self, f"_{self.choice.choice(kinds)}")()
        self.script.do("f.outputs(m)")
        self.script.declared()
        return self.script

    def _start(self) -> tuple[str, ...]:
        return (
            "N, M = tm.params('N M')",
            "i, v, p = tm.iters('i v p')",
            f"{', '.join(NEW_LOOPS)} = tm.iters('{' '.join(NEW_LOOPS)}')",
            f"{', '.join(NEW_COPY)} = tm.iters('{' '.join(NEW_COPY)}')",
            "f = tm.Function('f', params=[N, M])",
        )

    def _facts(self, likely: str) -> str:
        """Declared facts, most often the one that helps."""
        names = ("permutation", "monotone")
        chosen = [name for name in names if self.choice.random() < (0.75 if name == likely else 0.1)]
        return "".join(f", {name}=True" for name in chosen)

    def _keys(self) -> str:
        """Inputs of one size, one of them of indices, and a condition that compares an index with a place."""
        self.script.do(f"o = f.input('o', tm.int32, [N], values=(0, N){self._facts('permutation')})")
        self.script.do("a = f.input('a', tm.int32, [N])")
        key = f"o[{self.choice.choice(('i', 'i', 'N - 1 - i', '0 * i'))}]"
        place = self.choice.choice(("v", "v", "v", "N - 1 - v", "v + 1", "v - 1", "i"))
        compared = self.choice.choice((f"{key} == {place}",) * 4 + (f"{key} <= {place}", f"{place} <= {key}"))
        if self.choice.random() < 0.3:
            more = self.choice.choice(("i > 0", "i != v", "(i + v) % 2 == 0", "a[i] > 0", "o[v] == i", "o[i] != v"))
            compared = f"({compared}) & ({more})"
        return compared

    def _scatter(self) -> None:
        where = self._keys()
        self.script.do(f"m = f.computation('m', {{i: N, v: N}}, a[i] + 10 * i, where={where})")
        place = self.choice.choice(("v", "v", "v", "N - 1 - v", "v + i", "i", "v // 2"))
        self.script.do(f"m.store_in(tm.Buffer('placed', [2 * N + 1], tm.int32), [{place}])")

    def _keyed(self) -> None:
        if self.choice.random() < 0.4:
            self._keyed_twice()
            return
        where = self._keys()
        self.script.do(f"m = f.reduction('m', {{v: N}}, {{i: N}}, tm.sum, a[i] + 2 * i, where={where})")

    def _keyed_twice(self) -> None:
        """A scatter to places of two coordinates, one or both of which are values, around another index."""
        self.script.do(f"o = f.input('o', tm.int32, [N], values=(0, N){self._facts('permutation')})")
        self.script.do("q = f.input('q', tm.int32, [N], values=(0, N + 1))")
        self.script.do("a = f.input('a', tm.int32, [N])")
        second = self.choice.choice(
            ("q[i] == p", "q[N - 1 - i] == p + 1", "q[i] == p - 1", "q[o[i]] == p", "p == i // 2")
        )
        more = self.choice.choice(("",) * 4 + (" & (a[i] > 0)", " & (v != p)", " & (i > 0)"))
        where = f"(o[i] == v) & ({second}){more}"
        self.script.do(f"m = f.reduction('m', {{v: N, p: N}}, {{i: N}}, tm.sum, a[i] + 2 * i + p, where={where})")

    def _bounds(self) -> str:
        self.script.do(f"o = f.input('o', tm.int32, [N + 1], values=(0, M + 1){self._facts('monotone')})")
        self.script.do("a = f.input('a', tm.int32, [M])")
        first = self.choice.choice(("o[i]",) * 5 + ("0", "o[i] + 1", "o[0]"))
        end = self.choice.choice(("o[i + 1]",) * 5 + ("o[i + 1] - 1", "M"))
        return f"({first}, {end})"

    def _rows(self) -> None:
        bounds = self._bounds()
        where = self.choice.choice(("",) * 4 + (", where=p % 2 == 0", ", where=a[p] > 0", ", where=i > 0"))
        self.script.do(f"m = f.computation('m', {{i: N, p: {bounds}}}, a[p] + 10 * i{where})")
        place = self.choice.choice(("p", "p", "p", "p + i", "M - 1 - p", "p // 2", "i"))
        self.script.do(f"m.store_in(tm.Buffer('placed', [M + N + 1], tm.int32), [{place}])")

    def _guarded(self) -> None:
        """Elements of ``a`` at values, under a condition that may bound these."""
        self.script.do("o = f.input('o', tm.int32, [N], values=(-2, M + 2))")
        self.script.do("a = f.input('a', tm.int32, [M])")
        least = self.choice.choice(
            ("o[i] >= 0",) * 4 + ("0 <= o[i]", "~(o[i] < 0)", "o[i] >= -1", "o[i] > -1", "o[i] == v")
        )
        most = self.choice.choice(
            ("o[i] < M",) * 4 + ("o[i] <= M - 1", "o[i] <= M", "o[i] - 1 < M", "o[N - 1 - i] < M")
        )
        where = f"({least}) & ({most})"
        if self.choice.random() < 0.3:
            where += f" & ({self.choice.choice(('a[i % 1] > 0', 'i != v', 'o[i] != v', '(i + v) % 2 == 0'))})"
        if self.choice.random() < 0.3:
            self.script.do(f"m = f.computation('m', {{i: N, v: M}}, a[o[i]] + v, where={where})")
            return
        self.script.do(f"m = f.reduction('m', {{v: M}}, {{i: N}}, tm.sum, a[o[i]] + v, where={where})")

    def _linear(self) -> None:
        """Rows of an array of one dimension, kept in another one in an order that may be wrong."""
        self.script.do("o = f.input('o', tm.int32, [N], values=(0, M))")
        self.script.do("a = f.input('a', tm.int32, [N * M])")
        rows = ("i * M + v", "v + i * M", "i * M + M - 1 - v", "(N - 1 - i) * M + v", "N * M - 1 - (i * M + v)")
        read = self.choice.choice((*rows, "i * M + o[i]", "o[i] + M * (N - 1 - i)", "i * M + v + 1"))
        place = self.choice.choice((*rows, *rows, "v", "i * M", "i * M + v // 2", "i * M + v - 1"))
        where = self.choice.choice(("",) * 4 + (", where=o[i] > v", ", where=a[i * M + v] > 0"))
        self.script.do(f"m = f.computation('m', {{i: N, v: M}}, a[{read}] + 10 * i{where})")
        self.script.do(f"m.store_in(tm.Buffer('placed', [N * M], tm.int32), [{place}])")

    def _sums(self) -> None:
        bounds = self._bounds()
        self.script.do(f"m = f.reduction('m', {{i: N}}, {{p: {bounds}}}, tm.sum, a[p] + p)")


class FactCommands(Commands):
    """Commands for such programs."""

    def __init__(self, choice: random.Random, script: Script) -> None:
        super().__init__(choice, script)
        self.kinds = list(COMMANDS)


def random_fact_script(seed: Seed) -> Script:
    """A random computation with up to four random commands; the same for the same seed."""
    choice = choices(seed)
    script = FactAlgorithms(choice).written()
    return FactCommands(choice, script).write(choice.choice((0, 1, 2, 3, 4)))
