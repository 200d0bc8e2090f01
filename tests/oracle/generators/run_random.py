"""Random programs over runs that have each position once: values, sums and scatters of positions, inverses, the run
that a position is in, values by position that a command puts in runs, and values once for each combination of keys.
"""

from __future__ import annotations

import random

from tests.oracle.generators.fact_random import COMMANDS, FactAlgorithms, FactCommands
from tests.oracle.generators.script import Script, Seed, choices


class RunAlgorithms(FactAlgorithms):
    """Writes one computation, ``m``, over the runs `o` of the positions of an input ``a``, or of places ``q``."""

    def written(self) -> Script:
        """Values of positions or by their runs, sums over runs, values of both, scatters, or gathers by an inverse."""
        for line in self._start():
            self.script.do(line)
        kinds = ("values", "values", "sums", "products", "places", "gathered", "numbers", "read", "compact", "in_runs")
        kind = self.choice.choice(kinds)
        if kind == "in_runs":
            self.script.do("row = f.input('row', tm.int32, [M], values=(0, N))")
            self.script.do("o = f.segments('o', N, of=M, at=row)")
        else:
            self.script.do(f"o = f.segments('o', N, of=M, found={self.choice.choice(('array', 'search'))!r})")
        self.script.do("a = f.input('a', tm.int32, [M])")
        getattr(self, f"_{kind}")()
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

    def _numbers(self) -> None:
        """The run that a position is in, as a value or as the place of a sum."""
        if self.choice.random() < 0.5:
            self.script.do(f"m = f.computation('m', {{p: M}}, a[p] + 10 * o.of(p){self._where_of_positions()})")
            return
        self.script.do("m = f.scatter('m', {i: N}, over={p: M}, at=[o.of(p)], op=tm.sum, expr=a[p] + p)")

    def _read(self) -> None:
        """What runs compute, read by position: by their own runs, most often."""
        self.script.do(f"b = f.computation('b', {{i: N, p: o[i]}}, {self._term()})")
        read = self.choice.choice(("b[o.of(p), p]",) * 5 + ("b[o.of(M - 1 - p), M - 1 - p]", "b[o.of(p), M - 1 - p]"))
        if self.choice.random() < 0.5:
            self.script.do(f"m = f.computation('m', {{p: M}}, {read} + p{self._where_of_positions()})")
            return
        self.script.do("q = f.input('q', tm.int32, [M], values=(0, N))")
        self.script.do(f"m = f.scatter('m', {{i: N}}, over={{p: M}}, at=[q[p]], op=tm.sum, expr={read})")

    def _in_runs(self) -> None:
        """Values by position that read the run of theirs, which a command puts in runs; perhaps compact."""
        self.script.do("w = f.input('w', tm.int32, [N])")
        self.script.do("q = f.input('q', tm.int32, [M], values=(0, N))")
        number = self.choice.choice(("row[p]", "row[p]", "tm.cast(tm.int64, row[p])", "row[tm.cast(tm.int64, p)]"))
        at = self.choice.choice((number, number, f"N - 1 - {number}"))
        more = self.choice.choice((" + q[p]", " * w[q[p]]", " + a[p]", " + row[M - 1 - p]", f" - 7 * {number}"))
        self.script.do(f"b = f.computation('b', {{p: M}}, 3 * w[{at}]{more})")
        read = self.choice.choice(("b[p]", "b[p]", "b[M - 1 - p]"))
        if self.choice.random() < 0.5:
            self.script.do(f"m = f.computation('m', {{p: M}}, {read} + a[p]{self._where_of_positions()})")
        else:
            self.script.do(f"m = f.scatter('m', {{i: N}}, over={{p: M}}, at=[q[p]], op=tm.sum, expr={read} + a[p])")
        self.script.attempt("b.in_runs(o, i)")
        if self.choice.random() < 0.3:
            self.script.attempt("b.compact(q[p], i, name='keys')")

    def _compact(self) -> None:
        """Values that depend on an index of a position, and perhaps on its run, or on more: once for each of these."""
        self.script.do("q = f.input('q', tm.int32, [M], values=(0, N))")
        self.script.do("w = f.input('w', tm.int32, [N])")
        more = self.choice.choice(("",) * 4 + (" + a[p]", " + p"))
        in_runs = self.choice.random() < 0.6
        domain, term, key = ("{i: N, p: o[i]}", " - 7 * i", ", i") if in_runs else ("{p: M}", "", "")
        self.script.do(f"b = f.computation('b', {domain}, 2 * w[q[p]] + q[p]{term}{more})")
        read = "b[o.of(p), p]" if in_runs else "b[p]"
        if self.choice.random() < 0.5:
            self.script.do(f"m = f.computation('m', {{p: M}}, {read} + a[p]{self._where_of_positions()})")
        else:
            self.script.do(f"m = f.scatter('m', {{i: N}}, over={{p: M}}, at=[q[p]], op=tm.sum, expr={read} + a[p])")
        self.script.attempt(f"b.compact(q[p]{self.choice.choice((key, key, key, ''))}, name='keys')")

    def _where_of_positions(self) -> str:
        return self.choice.choice(("",) * 4 + (", where=a[p] > 0", ", where=p % 2 == 0"))


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
