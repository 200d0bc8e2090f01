"""Prefetches of a statement: the loads of a later iteration, one element of each cache line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from tiramisu_py.algorithm.expressions import Binary, Cast, Const, Expr, Iter
from tiramisu_py.algorithm.traversal import rewrite, walk
from tiramisu_py.errors import CompilerDefect
from tiramisu_py.ir import Load, Prefetch
from tiramisu_py.ir.arithmetic.linear import difference, number
from tiramisu_py.ir.arithmetic.simplify import simplified
from tiramisu_py.program.loops import LoopId
from tiramisu_py.program.machine.instruction_costs import LINE
from tiramisu_py.program.program import Program, nest
from tiramisu_py.program.statement import Ahead, Statement
from tiramisu_py.records import dataclass


@dataclass(frozen=True, eq=False)
class Lookahead:
    """Prefetches of one statement: its loads of `buffer`, `distance` iterations later in the loop of the first of
    `variables` that the indices use.
    """

    statement: str
    buffer: str
    variables: tuple[str, ...]
    distance: int
    locality: int

    def nodes(self, expressions: Iterable[Expr]) -> Iterator[Prefetch]:
        """The prefetches for a statement that computes these expressions: one element of each cache line."""
        parts = (part for e in expressions for part in walk(e))
        loads = [part for part in parts if isinstance(part, Load) and part.buffer == self.buffer]
        used = {part.name for load in loads for index in load.indices for part in walk(index) if isinstance(part, Iter)}
        variable = next((name for name in self.variables if name in used), None)
        if variable is None or not loads:
            return
        line = max(LINE // loads[0].dtype.bytes, 1)
        for indices in _lines([load.indices for load in loads], line):
            yield Prefetch(self.buffer, tuple(self._later(i, variable) for i in indices), self.locality, self.statement)

    def _later(self, index: Expr, variable: str) -> Expr:
        def later(e: Expr) -> Expr | None:
            return e + number(self.distance) if isinstance(e, Iter) and e.name == variable else None

        return simplified(rewrite(index, later))


def _lines(accesses: Sequence[tuple[Expr, ...]], line: int) -> list[tuple[Expr, ...]]:
    """The indices of accesses, without those within a cache line of an earlier one in the same row."""
    rows: list[list[tuple[int, tuple[Expr, ...]]]] = []
    for indices in accesses:
        for row in rows:
            apart = _apart(indices, row[0][1])
            if apart is not None:
                row.append((apart, indices))
                break
        else:
            rows.append([(0, indices)])
    found: list[tuple[Expr, ...]] = []
    for row in rows:
        last: int | None = None
        for position, indices in sorted(row, key=lambda each: each[0]):
            if last is None or position - last >= line:
                found.append(indices)
                last = position
    return found


def _apart(indices: tuple[Expr, ...], first: tuple[Expr, ...]) -> int | None:
    """The distance in elements of an access from another one in the same row; None if it is not constant."""
    if not indices or any(_distance(a, b) != 0 for a, b in zip(indices[:-1], first[:-1], strict=True)):
        return None if indices else 0
    return _distance(indices[-1], first[-1])


def _distance(a: Expr, b: Expr) -> int | None:
    """``a - b`` if that is constant, also for values in 32 bits; else None."""
    exact = difference(a, b)
    if exact is not None:
        return exact
    (x, more), (y, less) = _moved(a), _moved(b)
    return more - less if x.key() == y.key() else None


def _moved(index: Expr) -> tuple[Expr, int]:
    """A computed index without the constant that is added to it, and this constant."""
    inner = index.operand if isinstance(index, Cast) else index
    if isinstance(inner, Binary) and inner.op in ("+", "-") and isinstance(inner.right, Const):
        return inner.left, int(inner.right.value) if inner.op == "+" else -int(inner.right.value)
    return inner, 0


def lookaheads(program: Program, statement: Statement, variables: Mapping[LoopId, str]) -> tuple[Lookahead, ...]:
    """The prefetches of a statement; the proof has shown that their loops exist."""
    return tuple(_lookahead(program, statement, ahead, variables) for ahead in statement.memory.prefetches)


def _lookahead(program: Program, statement: Statement, ahead: Ahead, variables: Mapping[LoopId, str]) -> Lookahead:
    loops = [loop for loop in reversed(statement.loops) if program.loops[loop].name == ahead.loop]
    if not loops:
        raise CompilerDefect(
            f"{statement.handle}.prefetch({ahead.source}, {ahead.loop}): the loop {ahead.loop} is no longer there "
            f"({nest(program, statement)}): call prefetch after the commands that change the loops"
        )
    buffer = program.storage_loaded(statement, ahead.source).buffer
    names = tuple(variables[loop] for loop in loops)
    return Lookahead(statement.name, buffer, names, ahead.distance, ahead.locality)
