"""Steps that read a pivot row and a pivot column: several steps at a time, in tiles counted from that of the pivots.

::

    for k:                                          for k0:
        for i: to[k, i] = d[i, k]                       for tiles of i, from that of the rows k0 on, then those before:
        for j: on[k, j] = d[k, j]           -->             for tiles of j, in the same order:
        for i, j: d[i, j] from to[i], on[j]                     for k in the block k0: to, on and d in this tile

The steps of a block need the tile of its pivots first, then those in its row and column, and then all others are free.
A tile stays in the first-level cache for all steps of a block. So run closures over paths (the shortest, the widest,
any), inverses by Gauss and Jordan, and eliminations that update the whole matrix.
Source: Venkataraman, Sahni and Mukhopadhyaya, A Blocked All-Pairs Shortest-Paths Algorithm.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tiramisu_py import Expr, Function, Iter
from tiramisu_py.auto.groups.nests import members_of
from tiramisu_py.auto.model.offers import Fresh, Offer, Problem
from tiramisu_py.errors import CommandError
from tiramisu_py.queries import Iterations, LinearRead, LoopDependences, Role, Statement
from tiramisu_py.records import dataclass

#: The steps of a block, which are the rows of a tile.
STEPS = 32
#: The share of values that come from memory.
MOVED = 1 / 8
#: Larger indices are not told apart from those before the pivots.
LARGEST = 2**46


@dataclass(frozen=True, eq=False)
class Pivots:
    """A field over steps, rows and columns, and the parts of its rows and columns that its steps read.

    `axes` says along which axis of the field a part lies: 1 or 2, or 0 for a single element. The pivots of step k
    are row and column ``k - behind``.
    """

    problem: Problem
    field: str
    axes: Mapping[str, int]
    behind: int

    @property
    def members(self) -> tuple[str, ...]:
        """The parts, those of fewer values first, and the field."""
        return (*sorted(self.axes, key=lambda part: min(self.axes[part], 1)), self.field)

    @property
    def bound(self) -> int | None:
        """A power of two above all indices of the field; None if the sizes are not bounded."""
        most = 1
        for name in self.problem.computation(self.field).iterators:
            values = Iterations(self.problem.function.program, self.problem.computation(self.field), name)
            if values.most is None:
                return None
            while most <= values.end + abs(self.behind):
                most *= 2
        return most if most < LARGEST else None

    def apply(self, function: Function) -> None:
        """Give the commands; raises `CommandError` if the sizes are not bounded."""
        most = self.bound
        if most is None:
            sizes = ", ".join(function.program.algorithm.params)
            raise CommandError(f"tiles before the pivots are told by a bound of {sizes}: assume one, such as 2**20")
        if self.problem.has_first_storage(self.field) and self.field not in function.program.algorithm.outputs:
            function[self.field].fold(Iter(self.problem.computation(self.field).iterators[0]), 1)
        fresh = Fresh(function)
        outer = [fresh(name) for name in ("block", "before_i", "i0", "before_j", "j0")]
        for part in self.members:
            function[part].set_schedule(self._loops(part, outer, most))
        handles = [function[each] for each in self.members]
        function.order(*handles, at=Iter(self.problem.computation(self.field).iterators[0]))
        for part in self.members:
            if self.axes.get(part, 2) == 2:
                column = Iter(self.problem.computation(part).iterators[-1])
                function[part].vectorize(column, self.problem.lanes(part), remainder="mask")

    @property
    def columns(self) -> int:
        """The columns of a tile that fits the first-level cache: a power of two, and a vector at least."""
        fitting = self.problem.cpu.first // (STEPS * self.problem.computation(self.field).dtype.bytes)
        return max(1 << (max(fitting, 1).bit_length() - 1), self.problem.lanes(self.field))

    def _loops(self, part: str, outer: Sequence[Iter], most: int) -> dict[Iter, Expr | int]:
        """Blocks of steps; tiles of rows and of columns, those before the pivots last; steps; rows; columns."""
        time, *rest = map(Iter, self.problem.computation(part).iterators)
        block = (time - self.behind if self.behind else time) // STEPS
        loops: dict[Iter, Expr | int] = {outer[0]: block}
        for axis, size in enumerate((STEPS, self.columns), 1):
            before, number = outer[2 * axis - 1], outer[2 * axis]
            if self.axes.get(part, axis) == axis:
                away = (rest[axis - 1] if part == self.field else rest[0]) - STEPS * block
                loops |= {before: -(away // most), number: away // size}
            else:  # a part of a row or a column is in the tiles of the pivots
                loops |= {before: 0, number: 0}
        return {**loops, time: time, **{each: each for each in rest}}


def pivoted(problem: Problem, name: str) -> Iterator[Offer]:
    """The offer of a field over steps, rows and columns, which reads a row and a column of the step before."""
    names = members_of(problem, name)
    found = _pivots(problem, names)
    if found is None:
        return
    column = problem.computation(found.field).iterators[-1]
    work = problem.work(found.field, column, problem.lanes(found.field), moved=MOVED).by_one_of(problem.threads)
    yield Offer(
        name, f"{STEPS} steps at a time in tiles, from those of their pivots on",
        f"a step of {found.field} reads a row and a column of the step before, and else only its own place",
        found.apply, names, work, is_tiled=True,
    )  # fmt: skip


def _pivots(problem: Problem, names: Sequence[str]) -> Pivots | None:
    """The field of a group whose other members are parts of one row and one column of it."""
    program = problem.function.program
    statements = tuple(each for source in names for each in program.statements_of(source))
    fields = [each for each in statements if len(each.loops) == 3]
    if len(statements) != len(names) or len(fields) != 1 or len(statements) < 2:
        return None
    (field,) = fields
    if any(not _is_plain(problem, each) or not each.loops for each in statements) or not _in_place(problem, field):
        return None
    if field.loops[-1] in LoopDependences(program, statements).carrying:
        return None
    axes, behind = dict[str, int](), set[int | None]()
    for part in (each.source for each in statements if each is not field):
        reads = problem.reads_of(part, field.source)
        axis = _axis(problem, part, reads)
        if axis is None:
            return None
        axes[part] = axis
        time = problem.computation(part).iterators[0]
        behind |= {read.offset(k, time) for read in reads for k in (1, 2) if read.forms[k] == {time: 1}}
    if len(behind) != 1 or not {1, 2} <= set(axes.values()):
        return None
    first = behind.pop()
    return None if first is None else Pivots(problem, field.source, axes, -first)


def _is_plain(problem: Problem, statement: Statement) -> bool:
    """Whether the loops of a value are its iterators."""
    names = problem.function.program.loop_names(statement)
    return statement.role is Role.VALUE and tuple(names) == problem.computation(statement.source).iterators


def _in_place(problem: Problem, field: Statement) -> bool:
    """Whether the field reads its own place alone of the step before."""
    iterators = problem.computation(field.source).iterators
    own = problem.reads_of(field.source, field.source)
    places = [tuple(each.offset(axis, name) for axis, name in enumerate(iterators)) for each in own]
    return bool(own) and set(places) == {(-1, 0, 0)}


def _axis(problem: Problem, part: str, reads: Sequence[LinearRead]) -> int | None:
    """Along which axis of the field a part lies: 1 or 2; 0 for a single element; None if it is no such part."""
    time, *rest = problem.computation(part).iterators
    if len(rest) > 1:
        return None
    axes = set()
    for read in reads:
        if read.offset(0, time) != -1:
            return None
        along = [axis for axis in (1, 2) if rest and read.offset(axis, rest[0]) == 0]
        if len(along) != len(rest) or any(read.forms[axis] != {time: 1} for axis in (1, 2) if axis not in along):
            return None
        axes |= set(along)
    if len(axes) != len(rest):
        return None
    return axes.pop() if axes else 0
