"""Random programs over runs that have each position once: values, sums and scatters of positions, and inverses."""

from __future__ import annotations

import random

from tests.oracle.generators.fact_random import COMMANDS, FactAlgorithms, FactCommands
from tests.oracle.generators.script import Script, Seed, choices


class RunAlgorithms(FactAlgorithms):
    """Writes one computation, ``m``, over the runs `o` of the positions of an input ``a``, or of places ``q``."""

    def written(self) -> Script:
        """Values of positions, sums over runs, values of both, scatters of runs, or gathers by an inverse."""
        for line in self._start():
            self.script.do(line)
        self.script.do("o = f.segments('o', N, of=M)")
        self.script.do("a = f.input('a', tm.int32, [M])")
        kinds = ("values", "values", "sums", "products", "places", "gathered")
        getattr(self, f"_{self.choice.choice(kinds)}")()
        self.script.do("f.outputs(m)")
        self.script.declared()
        return self.script

    def _term(self) -> str:
        return self.choice.choice(("a[p] + 10 * i", "a[p] * i", "a[p] - p", "a[M - 1 - p] + i"))

    def _where(self) -> str:
        return self.choice.choice(("",) * 4 + (", where=a[p] > 0", ", where=p % 2 == 0", ", where=i > 0"))

    def _values(self) -> None:
        self.script.do(f"m = f.computation('m', {{i: N, p: o[i]}}, {self._term()}{self._where()})")
        if self.choice.random() < 0.2:
            place = self.choice.choice(("p", "p", "M - 1 - p", "p // 2", "i"))
            self.script.do(f"m.store_in(tm.Buffer('placed', [M + N + 1], tm.int32), [{place}])")

    def _sums(self) -> None:
        self.script.do(f"m = f.reduction('m', {{i: N}}, {{p: o[i]}}, tm.sum, {self._term()}{self._where()})")

    def _products(self) -> None:
        self.script.do(f"m = f.reduction('m', {{i: N, p: o[i]}}, {{v: 3}}, tm.sum, {self._term()} + v)")

    def _places(self) -> None:
        self.script.do("q = f.input('q', tm.int32, [M], values=(0, N))")
        self.script.do(
            f"m = f.scatter('m', {{v: N}}, over={{i: N, p: o[i]}}, at=[q[p]], op=tm.sum, expr={self._term()})"
        )

    def _gathered(self) -> None:
        self.script.do("q = f.input('q', tm.int32, [M], values=(0, N))")
        self.script.do("m = f.scatter('m', {i: N}, over={p: M}, at=[q[p]], op=tm.sum, expr=a[p] + p)")
        self.script.do("into = f.inverse('into', q)")
        self.script.do("m.gather(into, p)")


class RunCommands(FactCommands):
    """Commands for such programs: loops over runs and over positions change places."""

    def __init__(self, choice: random.Random, script: Script) -> None:
        super().__init__(choice, script)
        self.kinds = [*COMMANDS, *("coalesce", "coalesce", "interchange", "interchange", "reorder", "reorder", "tile")]


def random_run_script(seed: Seed) -> Script:
    """A random computation over runs with up to five random commands; the same for the same seed."""
    choice = choices(seed)
    script = RunAlgorithms(choice).written()
    return RunCommands(choice, script).write(choice.choice((1, 2, 3, 4, 5)))
