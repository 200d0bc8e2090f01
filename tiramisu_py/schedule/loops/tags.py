"""Commands that say how the iterations of a loop run: parallelize, vectorize, unroll."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, replace
from numbers import Integral

from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.algorithm.spellings import fresh_name, underscored
from tiramisu_py.errors import CommandError
from tiramisu_py.program.bundles.members import members
from tiramisu_py.program.loops import Combine, LoopId, Parallel, Tag, Unroll, Vector
from tiramisu_py.program.program import Program, nest
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.command_arguments import find, loop_name, loops_named, size, statements
from tiramisu_py.schedule.command_fields import Named, OnStatements
from tiramisu_py.schedule.nesting import check_nesting
from tiramisu_py.schedule.reductions.dealt_terms import in_ranges
from tiramisu_py.schedule.reductions.results_of_chunks import in_chunks

SCHEDULES = ("static", "dynamic", "guided")
WIDTHS = (2, 4, 8, 16, 32, 64)
#: The ranges of a bundle whose results are combined in a tree.
RANGES = 64
#: Ways to run the last iterations, which do not fill a vector or an unrolled tile; the first is the default.
VECTOR_REMAINDERS = ("scalar", "mask", "overlap", "pad")
UNROLL_REMAINDERS = ("loop", "specialize")
#: The remainders of vector loops that may have a version for each number of vectors.
IN_VECTORS = ("mask", "pad")


def parallelize(program: Program, names: Sequence[str], loops: Sequence[str], tag: Parallel, command: str) -> Program:
    """Deal the iterations of a loop (or of several nested ones together) out to threads."""
    found = [members(program, program.statements[name], loops[0]) for name in names if name in program.statements]
    if len(loops) == 1 and any(found):
        return _together(program, found, tag, command)
    outermost = replace(tag, collapse=len(loops))
    for statement, outer in loops_named(program, names, loops[0]):
        run = _adjacent(program, program.statements[statement.name], outer, loops)
        program = tagged(program, outer, outermost, command)
        for inner in run[1:]:
            program = tagged(program, inner, replace(tag, collapse=0), command)
    return program


def in_ranges_of_bundles(program: Program, names: Sequence[str], loops: Sequence[str]) -> tuple[Program, list[str]]:
    """The program with bundles of terms in ranges, and the names of the loops over these in their place."""
    found = [(s, run) for s in statements(program, names) if (run := members(program, s, loops[0]))]
    if len(loops) > 1 or not found:
        return program, list(loops)
    statement, run = found[0]
    if statement.role is not Role.UPDATE:
        raise CommandError(f"combine=tm.TREE: {statement.handle} is no update of a reduction; leave it out")
    taken = {name for s in program.with_this_loop(run[0]) for name in program.loop_names(s)}
    ranges = fresh_name(f"{loops[0]}_ranges", taken, underscored)
    return in_ranges(program, statement, run, RANGES, (loops[0], ranges)), [ranges]


def _together(program: Program, found: Sequence[tuple[LoopId, ...]], tag: Parallel, command: str) -> Program:
    """Deal the iterations of bundles out to threads, in ranges of consecutive ones."""
    if tag.balance is not None:
        raise CommandError(f"balance={tag.balance}: it is for one loop, and a bundle has several: leave it out")
    if tag.schedule != "static" and tag.chunk is None:
        raise CommandError(
            f'schedule="{tag.schedule}" of a bundle needs chunk=, the number of iterations that a thread takes at a '
            "time: the first one of each is found by divisions; give chunk=4096"
        )
    for run in dict.fromkeys(run for run in found if run):
        bundle = program.loops[run[0]].bundle
        assert bundle is not None
        if bundle.within:
            raise CommandError(
                f"{bundle.name} and {bundle.within} are the blocks of a bundle, for the blocks and threads of a GPU: "
                f"without the split, threads of the host take ranges of the bundle, of chunk={bundle.size} iterations"
            )
        for position, loop in enumerate(run):
            program = tagged(program, loop, replace(tag, collapse=0 if position else len(run)), command)
    return program


def _adjacent(program: Program, statement: Statement, outer: LoopId, loops: Sequence[str]) -> list[LoopId]:
    found = [outer]
    for name in loops[1:]:
        loop = find(program, statement, name)
        if loop is None or statement.depth(loop) != statement.depth(found[-1]) + 1:
            raise CommandError(
                f"parallelize takes loops that are perfectly nested: {name} is not just inside "
                f"{program.loops[found[-1]].name} ({nest(program, statement)})"
            )
        found.append(loop)
    return found


def tag_loop(program: Program, names: Sequence[str], loop: str, tag: Vector | Unroll, command: str) -> Program:
    """Run a loop in strips of lanes, or repeat its body."""
    for _, found in loops_named(program, names, loop):
        program = tagged(program, found, tag, command)
    return program


def _remainder(given: object, known: tuple[str, ...], name: str = "remainder") -> str:
    if isinstance(given, str) and given in known:
        return given
    raise CommandError(f"{name}={given!r}: choose one of {', '.join(known)}")


def _combine(given: object, *more: Combine) -> Combine | None:
    if given is None or given in (Combine.PRIVATE, Combine.ATOMIC):
        return given
    known = " or ".join(f"tm.{each.name}" for each in (Combine.PRIVATE, Combine.ATOMIC, *more))
    raise CommandError(f"combine={given!r}: choose {known}")


def tagged(program: Program, loop: LoopId, tag: Tag, command: str) -> Program:
    """The program with a loop tagged; raises `CommandError` on a contradiction with another tag."""
    old = program.loops[loop]
    if old.tag is not None and type(old.tag) is not type(tag):
        raise CommandError(f"loop {old.name} is tagged already, by {old.tagged_by}")
    program = program.with_loop(replace(old, tag=tag, tagged_by=command))
    check_nesting(program, loop)
    return program


# -- the commands as values


@dataclass(frozen=True, eq=False)
class Parallelize(OnStatements):
    """The iterations of loops are dealt out to threads."""

    many = "over"

    over: tuple[Iter, ...]
    _: KW_ONLY
    schedule: str = "static"
    chunk: int | None = None
    combine: Combine | None = None
    balance: Named | None = None

    def applied(self, program: Program) -> Program:
        if not self.over:
            raise CommandError("parallelize needs a loop")
        if self.schedule not in SCHEDULES:
            raise CommandError(f"schedule={self.schedule!r}: choose one of {', '.join(SCHEDULES)}")
        chunk = None if self.chunk is None else size(self.chunk, "chunk")
        balance = None if self.balance is None else self._balanced(program, self.balance)
        names, loops, combine = self.names(program), [loop_name(loop) for loop in self.over], self.combine
        if combine is Combine.TREE:
            program, loops = in_ranges_of_bundles(program, names, loops)
            (program, names), combine = in_chunks(program, names, loops, self.text), None
        tag = Parallel(self.schedule, chunk, _combine(combine, Combine.TREE), balance=balance)
        return parallelize(program, names, loops, tag, self.text)

    def _balanced(self, program: Program, balance: Named) -> str:
        """The input by which shares are cut; raises `CommandError` if they cannot be cut by it."""
        declared = program.algorithm.inputs.get(balance.source)
        if declared is None:
            raise CommandError(f"balance={balance}: give an input with the number of terms before each iteration")
        if not declared.monotone or len(declared.shape) != 1:
            raise CommandError(
                f"balance={balance}: threads search {balance} for the ends of their shares, and it is not declared to "
                "have one dimension and not to decrease: declare it with monotone=True"
            )
        if declared.device is not None:
            raise CommandError(f"balance={balance}: it is in the memory of a GPU, and the host's threads search it")
        if len(self.over) > 1 or self.schedule != "static" or self.chunk is not None:
            raise CommandError(
                f"balance={balance}: each thread has one share of the iterations of one loop: leave out other loops, "
                "schedule= and chunk="
            )
        return balance.source


@dataclass(frozen=True, eq=False)
class Vectorize(OnStatements):
    """A loop runs in strips of `width` lanes."""

    loop: Iter
    width: int
    _: KW_ONLY
    combine: Combine | None = None
    remainder: str = "scalar"
    partial: str = "loop"

    def applied(self, program: Program) -> Program:
        if isinstance(self.loop, Integral) and isinstance(self.width, Iter):
            raise CommandError(f"the width comes after the loop: write vectorize({self.width}, {self.loop})")
        loop, width = loop_name(self.loop), self.width
        if not isinstance(width, Integral) or width not in WIDTHS or isinstance(width, bool):
            raise CommandError(f"the vector width of {loop} is {width!r}: choose one of {WIDTHS}")
        remainder = _remainder(self.remainder, VECTOR_REMAINDERS)
        partial = _remainder(self.partial, UNROLL_REMAINDERS, "partial")
        if partial == "specialize" and remainder not in IN_VECTORS:
            raise CommandError(
                f'partial="specialize" has a version for each number of vectors, and remainder={remainder!r} runs the '
                f"rest of a tile in another way: choose one of {', '.join(IN_VECTORS)} for remainder="
            )
        tag = Vector(int(width), _combine(self.combine), remainder, partial)
        return tag_loop(program, self.names(program), loop, tag, self.text)


@dataclass(frozen=True, eq=False)
class UnrollLoop(OnStatements):
    """The body of a loop is repeated."""

    verb = "unroll"

    loop: Iter
    factor: int | None = None
    _: KW_ONLY
    remainder: str = "loop"

    def applied(self, program: Program) -> Program:
        loop = loop_name(self.loop)
        factor = None if self.factor is None else size(self.factor, f"the unrolling factor of {loop}")
        tag = Unroll(factor, _remainder(self.remainder, UNROLL_REMAINDERS))
        return tag_loop(program, self.names(program), loop, tag, self.text)
