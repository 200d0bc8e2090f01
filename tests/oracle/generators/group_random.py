"""Random programs with computations that read each other, and random commands."""

from __future__ import annotations

from tests.oracle.generators.random_algorithms import ITERATORS, PARAMS, Algorithms, Source
from tests.oracle.generators.random_programs import Commands
from tests.oracle.generators.script import Script, Seed, choices

#: How many iterations before its own each of two computations reads the other, in one loop and in two.
STEPS = (((1,), (0,)), ((1,), (1,)), ((2,), (0,)), ((2,), (-1,)), ((0,), (1,)), ((-1,), (-1,)), ((-1,), (0,)))
STEPS_OF_TWO = (
    ((1, 0), (0, 0)), ((0, 1), (0, 0)), ((1, 0), (0, 1)), ((1, 1), (0, 0)), ((0, 1), (1, 0)), ((1, -1), (0, 0)),
    ((0, -1), (0, 0)),
)  # fmt: skip


class Groups(Algorithms):
    """Algorithms whose first computation is one of two that read each other; the other one ends in a 2."""

    def _computation(self, name: str) -> None:
        if name != "p":
            super()._computation(name)
        elif self.rank == 1 and self.choice.random() < 0.3:
            self._sums(name)
        else:
            self._steps(name)

    def _steps(self, name: str) -> None:
        """Each reads the other some iterations before, if there is one, and an input."""
        other, read = f"{name}2", self._read(self.rank, last=True)
        low, more = self._box(self.rank, [read])
        first, second = self.choice.choice(STEPS if self.rank == 1 else STEPS_OF_TWO)
        lines = ["with f.together() as g:"]
        for this, that, step in ((name, other, first), (other, name, second)):
            at = ", ".join(f"{ITERATORS[d]} - {step[d]}" for d in range(self.rank))
            edges = [f"({ITERATORS[d]} < {low[d] + by})" for d, by in enumerate(step) if by > 0]
            edges += [f"({ITERATORS[d]} >= {PARAMS[d]} + {more[d] + by})" for d, by in enumerate(step) if by < 0]
            expr = f"{that}[{at}] + {read.text}"
            expr = f"tm.select({' | '.join(edges)}, {read.text}, {expr})" if edges else expr
            lines.append(f"    {this} = g.computation('{this}', {{{self._dims(low, more)}}}, lambda: {expr})")
        self._together(lines, Source(name, low, more), Source(other, low, more))

    def _sums(self, name: str) -> None:
        """A sum over what the other one has in earlier iterations, or in later ones."""
        other, read = f"{name}2", self._read(1, last=True)
        low, more = self._box(1, [read])
        dims = self._dims(low, more)
        over = self.choice.choice((f"k: ({low[0]}, i)", f"k: (i + 1, N + {more[0]})"))
        term = f"tm.cast(tm.{self.dtype}, {other}[k] + k)"
        lines = [
            "with f.together() as g:",
            f"    {name} = g.reduction('{name}', {{{dims}}}, {{{over}}}, tm.{self.choice.choice(('sum', 'max'))}, "
            f"lambda: {term}, dtype=tm.{self.dtype})",
            f"    {other} = g.computation('{other}', {{{dims}}}, lambda: {read.text} - {name}[i])",
        ]
        self._together(lines, Source(name, low, more), Source(other, low, more))

    def _together(self, lines: list[str], *sources: Source) -> None:
        self.script.do("\n".join(lines))
        self.sources += sources


def random_group_script(seed: Seed) -> Script:
    """A random algorithm with a group, and random commands; the same for the same seed."""
    choice = choices(seed)
    script = Groups(choice).written()
    return Commands(choice, script).write(choice.choice((0, 1, 2, 3, 4, 5)))
