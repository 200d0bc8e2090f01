"""Steps that read a pivot row and a pivot column: several steps at a time, in tiles counted from that of the pivots.

::

    for k:                                          for k0:
        for i: to[k, i] = d[i, k]                       for tiles of i, from that of the rows k0 on, then those before:
        for j: on[k, j] = d[k, j]           -->             for tiles of j, in the same order:
        for i, j: d[i, j] from to[i], on[j]                     for k in the block k0: to, on and d in this tile

The steps of a block need the tile of its pivots first, then those in its row and column, and then all others are free.
This is the blocked form of Floyd and Warshall's algorithm, and of others whose steps are updates by a row and a column.
Source: Venkataraman, Sahni and Mukhopadhyaya, A Blocked All-Pairs Shortest-Paths Algorithm.
"""

from __future__ import annotations

from collections.abc import Iterator

from tiramisu_py import sets
from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.auto.groups.nests import members_of
from tiramisu_py.auto.model.carried import LoopDependences
from tiramisu_py.auto.model.offers import Fresh, Offer, Problem
from tiramisu_py.auto.model.strides import Touch
from tiramisu_py.function import Function
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.records import dataclass

#: The steps of a block, which are the rows of a tile, and the vectors in a row of it: a tile is in the first cache.
STEPS, VECTORS = 32, 16
#: The share of values that come from memory.
MOVED = 1 / 8
#: Larger indices are not told apart from those before the pivots.
LARGEST = 2**46


def pivoted(problem: Problem, name: str) -> Iterator[Offer]:
    """The offer of a field over steps, rows and columns, which reads a row and a column of the step before."""
    names = members_of(problem, name)
    program = problem.function.program
    statements = [each for source in names for each in program.statements_of(source)]
    fields = [each for each in statements if len(each.loops) == 3]
    if len(fields) != 1 or len(statements) < 2 or any(each.role is not Role.VALUE for each in statements):
        return
    (field,) = fields
    iterators = {each.name: problem.computation(each.source).iterators for each in statements}
    if any(not each.loops or tuple(program.loop_names(each)) != iterators[each.name] for each in statements):
        return
    most = _bound(field)
    found = None if most is None else _Pivots(problem, field, [e for e in statements if e is not field], most)
    if found is None or not found.are_regular:
        return
    columns = problem.computation(field.source).iterators[-1]
    if field.loops[-1] in LoopDependences(program, tuple(statements)).carrying:
        return
    yield Offer(
        name, f"{STEPS} steps at a time in tiles, from those of their pivots on",
        f"a step of {field.source} reads a row and a column of the step before, and else only its own place",
        found.apply, names, problem.work(field.source, columns, problem.lanes(field.source), moved=MOVED), True,
    )  # fmt: skip


def _bound(field: Statement) -> int | None:
    """A power of two that is above all indices of a field; None if its size is not bounded."""
    most = 1
    for position in range(len(field.loops)):
        upper = sets.largest_value(field.instances, position)
        if upper is None:
            return None
        while most <= upper:
            most *= 2
    return most if most < LARGEST else None


@dataclass(frozen=True, eq=False)
class _Pivots:
    """A field over steps, rows and columns, and the parts of its rows and columns that it reads."""

    problem: Problem
    field: Statement
    parts: list[Statement]
    most: int

    @property
    def are_regular(self) -> bool:
        """Whether steps read their own places and pivots that are a constant number of rows behind the step."""
        time, *axes = self.problem.computation(self.field.source).iterators
        own = [each for each in self.problem.touches(self.field.source) if each.access.source == self.field.source]
        offsets = [each.offset(k, name) for each in own for k, name in enumerate((time, *axes))]
        if offsets != [-1, 0, 0] * len(own) or not own:
            return False
        if any(self._axis(each) is None for each in self.parts):
            return False
        return len({pivot for part in self.parts for read in self._reads(part) for pivot in self._of(part, read)}) == 1

    def _reads(self, part: Statement) -> list[Touch]:
        return [each for each in self.problem.touches(part.source) if each.access.source == self.field.source]

    def _of(self, part: Statement, read: Touch) -> list[int | None]:
        """How far behind the step the pivots are that an access reads."""
        time = self.problem.computation(part.source).iterators[0]
        return [read.constants[k] for k in (1, 2) if read.forms[k] == {time: 1}]

    def _axis(self, part: Statement) -> int | None:
        """Along which axis of the field a part lies: 1 or 2; 0 for a single element; None if it is no such part."""
        time, *rest = self.problem.computation(part.source).iterators
        axes = set()
        for read in self._reads(part):
            for axis in (1, 2):
                if len(rest) == 1 and read.offset(axis, rest[0]) == 0:
                    axes.add(axis)
                elif read.forms[axis] != {time: 1}:
                    return None
        if len(axes) == len(rest) <= 1 and self._reads(part):
            return axes.pop() if axes else 0
        return None

    def apply(self, function: Function) -> None:
        fresh, lanes = Fresh(function), self.problem.lanes(self.field.source)
        names = [fresh(name).name for name in ("block", "before_i", "i0", "before_j", "j0")]
        (pivot,) = {p for part in self.parts for read in self._reads(part) for p in self._of(part, read)}
        for part in (*self.parts, self.field):
            function[part.source].set_schedule(self._time_map(part, names, pivot or 0, lanes * VECTORS))
        handles = [function[each.source] for each in (*self.parts, self.field)]
        function.order(*handles, at=Iter(self.problem.computation(self.field.source).iterators[0]))
        for part in (*self.parts, self.field):
            if part is self.field or self._axis(part) == 2:
                last = self.problem.computation(part.source).iterators[-1]
                function[part.source].vectorize(Iter(last), self.problem.lanes(part.source), remainder="mask")

    def _time_map(self, part: Statement, names: list[str], pivot: int, columns: int) -> str:
        """Blocks of steps; tiles of rows and of columns, those before the pivots last; steps; rows; columns."""
        time, *rest = self.problem.computation(part.source).iterators
        first = f"({time} {'-' if pivot < 0 else '+'} {abs(pivot)})" if pivot else time
        block = f"floor({first} / {STEPS})"
        axis = 3 if part is self.field else self._axis(part)
        outer = [f"{names[0]} = {block}"]
        for k, size in ((1, STEPS), (2, columns)):
            before, tile = names[2 * k - 1], names[2 * k]
            if axis in (3, k):
                index = rest[k - 1] if axis == 3 else rest[0]
                away = f"({index} - {STEPS} * {block})"
                outer += [f"{before} = -floor({away} / {self.most})", f"{tile} = floor({away} / {size})"]
            else:
                outer += [f"{before} = 0", f"{tile} = 0"]
        dims = ", ".join((time, *rest))
        return f"{{ [{dims}] -> [{', '.join(outer)}, {dims}] }}"
