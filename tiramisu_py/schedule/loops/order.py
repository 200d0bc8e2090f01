"""Commands on order: which statements share loops, and which comes first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, replace
from itertools import pairwise
from typing import Self

from tiramisu_py import sets
from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.errors import CommandError
from tiramisu_py.program.loops import Combine, GpuBlock, GpuThread, Loop, LoopId, Parallel, Rank, Tag, Vector
from tiramisu_py.program.ordering import Order, shared
from tiramisu_py.program.program import Program, nest
from tiramisu_py.program.statement import Statement
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.command_arguments import find, loop_name, statements
from tiramisu_py.schedule.command_fields import OnFunction, OnStatements, StatementsHandle, statements_given
from tiramisu_py.schedule.nesting import check_nesting


class Root:
    """The level outside all loops: whole nests are ordered, nothing is shared."""

    def __repr__(self) -> str:
        return "tm.root"


root = Root()

#: A level: the name of a loop, or `root`.
Level = str | Root

#: The tags that say how partial results of a reduction are combined.
Combining = Parallel | Vector | GpuBlock | GpuThread | Rank


def level_of(given: Iter | Root) -> Level:
    """The level that an iterator, or `root`, gives; raises `CommandError` for anything else."""
    return given if isinstance(given, Root) else loop_name(given, "a level")


def inner_level(given: Iter | Root) -> str:
    """The name of the loop that an iterator gives; raises `CommandError` for `root`, and for anything else."""
    if isinstance(given, Root):
        raise CommandError("root is outside all loops: name a loop of the consumer")
    return loop_name(given)


def place_after(
    program: Program, first: Sequence[str], second: Sequence[str], level: Level, keep_first: bool, command: str
) -> Program:
    """`second` follows `first`; they share the loops up to `level` (none for `root`)."""
    return _placed(program, first, second, level, keep_first, command, ordered=True)


def fuse(program: Program, kept: Sequence[str], joining: Sequence[str], level: str, command: str) -> Program:
    """`joining` enters the loops of `kept` up to `level`; their order stays as it is."""
    return _placed(program, kept, joining, level, True, command, ordered=False)


def _placed(
    program: Program,
    first: Sequence[str],
    second: Sequence[str],
    level: Level,
    keep_first: bool,
    command: str,
    ordered: bool,
) -> Program:
    pairs = [(a.name, b.name) for a in statements(program, first) for b in statements(program, second)]
    if any(a == b for a, b in pairs):
        raise CommandError(f"{pairs[0][0]} cannot be ordered after itself")
    if isinstance(level, Root):
        return _at_root(program, pairs, command)
    return _at_level(program, pairs, level, keep_first, command, ordered)


def _at_root(program: Program, pairs: list[tuple[str, str]], command: str) -> Program:
    for a, b in pairs:
        first, second = program.statements[a], program.statements[b]
        if shared(first, second):
            name = program.loops[first.loops[0]].name
            raise CommandError(f"{a} and {b} share loop {name}: they cannot be ordered as whole nests at root")
        program = program.with_(orders=(*program.orders, Order(a, b, None, command)))
    return program


def _at_level(
    program: Program, pairs: list[tuple[str, str]], level: str, keep_first: bool, command: str, ordered: bool
) -> Program:
    placed = False
    for a, b in pairs:
        first, second = program.statements[a], program.statements[b]
        kept, joining = (first, second) if keep_first else (second, first)
        program = _inside_single_blocks(program, kept, joining, level)
        joining = program.statements[joining.name]
        count = _depth(program, kept, joining, level)
        if count is None:
            continue
        program = merged(program, kept, joining, count)
        placed = True
        if ordered:
            program = program.with_(orders=(*program.orders, Order(a, b, kept.loops[count - 1], command)))
    if not placed:
        involved = dict.fromkeys(name for pair in pairs for name in pair)
        words = "; ".join(nest(program, program.statements[name]) for name in involved)
        once = [name for name in involved if program.statements[name].link.waits and not program.statements[name].loops]
        advice = f"; a wait with a domain has loops: wait({{{level}: ...}})" if once else ""
        raise CommandError(f"there is no loop {level} to share: {words}{advice}")
    return program


def _inside_single_blocks(program: Program, kept: Statement, joining: Statement, level: str) -> Program:
    """The program in which a statement without loops is inside loops of its own, of one iteration each, if those up to
    the level are block loops of one iteration: the kernel of a sum of everything, which something goes on with.
    """
    loop = find(program, kept, level)
    if (
        joining.loops
        or loop is None
        or not all(_is_single_block(program, kept, k) for k in range(kept.depth(loop) + 1))
    ):
        return program
    first = program.next_loop()
    around = kept.loops[: kept.depth(loop) + 1]
    copies = [replace(program.loops[x], id=first + k) for k, x in enumerate(around)]
    coords = sets.function(joining.frame, None, [sets.constant(joining.frame, 0)] * len(copies))
    loops = tuple(copy.id for copy in copies)
    return program.with_loop(*copies).with_statement(replace(joining, loops=loops, coords=coords))


def _is_single_block(program: Program, statement: Statement, depth: int) -> bool:
    """Whether a loop runs on blocks and has one iteration, numbered 0."""
    form = sets.outputs(statement.coords)[depth]
    tagged = isinstance(program.loops[statement.loops[depth]].tag, GpuBlock)
    return tagged and sets.is_constant(form) and sets.constant_of(form) == 0


def _depth(program: Program, kept: Statement, joining: Statement, level: str) -> int | None:
    loop = find(program, kept, level)
    if loop is None:
        loop = find(program, joining, level)
        if loop is None:
            return None
        count = joining.depth(loop) + 1
    else:
        count = kept.depth(loop) + 1
    return count if len(kept.loops) >= count and len(joining.loops) >= count else None


def merged(program: Program, kept: Statement, joining: Statement, count: int) -> Program:
    """The program in which two statements (and all that share their loops) share the outermost `count` loops."""
    renaming: dict[LoopId, LoopId] = {}
    for x, y in zip(kept.loops[:count], joining.loops[:count], strict=True):
        if x != y:
            program = program.with_loop(_agreed(program, x, y))
            renaming[y] = x
    if not renaming:
        return program
    program = _renamed(program, renaming)
    for loop in renaming.values():
        check_nesting(program, loop)
    return program


def _agreed(program: Program, kept: LoopId, joining: LoopId) -> Loop:
    """The loop that two loops become: with the tag of both, and the `combine` that one of them names."""
    a, b = program.loops[kept], program.loops[joining]
    if b.tag is not None and None in (_combine(a), _combine(b)) and _uncombined(a) == _uncombined(b):
        said = b if _combine(b) else a
        return replace(a, tag=said.tag, tagged_by=said.tagged_by)
    if b.tag is not None and b.tag != a.tag:
        have = f"loop {a.name} is tagged by {a.tagged_by}" if a.tag else f"loop {a.name} is not tagged"
        raise CommandError(
            f"{have}, but loop {b.name} by {b.tagged_by}; one loop has one tag: share the loop first, and tag it then"
        )
    return a


def _combine(loop: Loop) -> Combine | None:
    return loop.tag.combine if isinstance(loop.tag, Combining) else None


def _uncombined(loop: Loop) -> Tag | None:
    return replace(loop.tag, combine=None) if isinstance(loop.tag, Combining) else loop.tag


def _renamed(program: Program, renaming: dict[LoopId, LoopId]) -> Program:
    def new(loops: tuple[LoopId, ...]) -> tuple[LoopId, ...]:
        return tuple(renaming.get(loop, loop) for loop in loops)

    gone = renaming.keys()
    changed = [replace(s, loops=new(s.loops)) for s in program.statements.values() if not gone.isdisjoint(s.loops)]
    program = program.with_statement(*changed)
    for buffer in program.buffers.values():
        if any(loop in renaming for loop in buffer.scope):
            program = program.with_buffer(replace(buffer, scope=new(buffer.scope)))
    for storage in program.storages.values():
        if any(loop in renaming for loop in storage.inner):
            program = program.with_storage(replace(storage, inner=new(storage.inner)))
    orders = tuple(
        replace(o, level=renaming[o.level]) if o.level is not None and o.level in renaming else o
        for o in program.orders
    )
    loops = {number: loop for number, loop in program.loops.items() if number not in renaming}
    return program.with_(orders=orders, loops=loops)


# -- the commands as values


@dataclass(frozen=True, eq=False)
class After(OnStatements):
    """Come after `other`, in its loops up to and including `at` (at `root`: after its whole nest).

    ::

        for i: p[i]             -->   for i:
        for i: q[i]                       p[i]
                                          q[i]                        (q.after(p, i))
    """

    former = (("level", "at"),)

    other: StatementsHandle
    at: Iter | Root = root

    def applied(self, program: Program) -> Program:
        names, others = self.names(program), statements_given(program, self.other)
        return place_after(program, others, names, level_of(self.at), True, self.text)


@dataclass(frozen=True, eq=False)
class Before(OnStatements):
    """Come before `other`, in its loops up to and including `at` (at `root`: before its whole nest).

    ::

        for i: p[i]             -->   for i:
        for i: q[i]                       q[i]
                                          p[i]                        (q.before(p, i))
    """

    former = (("level", "at"),)

    other: StatementsHandle
    at: Iter | Root = root

    def applied(self, program: Program) -> Program:
        names, others = self.names(program), statements_given(program, self.other)
        return place_after(program, names, others, level_of(self.at), False, self.text)


@dataclass(frozen=True, eq=False)
class Between(OnStatements):
    """Come after `first` at one level and before `second` at another: in files of older versions."""

    first: StatementsHandle
    first_level: Iter | Root
    second: StatementsHandle
    second_level: Iter | Root

    def applied(self, program: Program) -> Program:
        names = self.names(program)
        first, second = statements_given(program, self.first), statements_given(program, self.second)
        program = place_after(program, first, names, level_of(self.first_level), True, self.text)
        return place_after(program, names, second, level_of(self.second_level), False, self.text)


@dataclass(frozen=True, eq=False)
class Fuse(OnStatements):
    """The statements share the loops of `other` up to `at`."""

    former = (("level", "at"),)

    other: StatementsHandle
    at: Iter

    def applied(self, program: Program) -> Program:
        level = level_of(self.at)
        if isinstance(level, Root):
            raise CommandError("fuse needs a loop to share; at root there is none")
        return fuse(program, statements_given(program, self.other), self.names(program), level, self.text)


@dataclass(frozen=True, eq=False)
class InOrder(OnFunction):
    """Put computations in order, each after the previous one, in shared loops up to `at` (whole nests at root).

    ::

        for i: p[i]             -->   for i:
        for i: q[i]                       p[i]
        for i: s[i]                       q[i]
                                          s[i]                        (f.order(p, q, s, at=i))
    """

    verb = "order"

    many = "handles"

    handles: tuple[StatementsHandle, ...]
    _: KW_ONLY
    at: Iter | Root

    @classmethod
    def called(cls, function: str, *handles: StatementsHandle, at: Iter | Root) -> Self:
        return cls(function, handles, at=at)

    def applied(self, program: Program) -> Program:
        if len(self.handles) < 2:
            raise CommandError("order needs at least two computations")
        for handle in self.handles:
            if isinstance(handle, tuple | list):
                raise CommandError(f"{handle} is several handles: unpack it, as in order(..., *down.wait(), ...)")
        names = [statements_given(program, handle) for handle in self.handles]
        for first, second in pairwise(names):
            program = place_after(program, first, second, level_of(self.at), True, self.text)
        return program
