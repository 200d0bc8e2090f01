"""Producers that join the loops of what reads them point by point, and run in the same iterations.

::

    for h: for x: p[h, x] = e(h, x)                 for j: p[j // 10, j % 10] = e(j // 10, j % 10)
    for h: for x: C[] += p[h, x]            -->            C[] += p[j // 10, j % 10]

Source: Zhao et al., Panamera (PACT 2022), section 3, reduction propagation: an elementwise producer that were joined
alone, or not at all, could not share the loops of the reduction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY
from typing import Self

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.expressions import Access, Iter
from tiramisu_py.algorithm.traversal import accesses
from tiramisu_py.errors import CommandError
from tiramisu_py.program.bundles import members
from tiramisu_py.program.ordering import Order
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.command_arguments import find, loop_name
from tiramisu_py.schedule.command_fields import Named, OnStatements
from tiramisu_py.schedule.loops.coalesce import coalesce
from tiramisu_py.schedule.loops.order import merged


def with_producers(program: Program, names: Sequence[str], loops: Sequence[str], into: str, command: str) -> Program:
    """Join loops, also those of the elementwise producers of the statements, and let these run in the joined loop.

    Raises `CommandError` if there are none, so that nobody takes a chain for fused that is not.
    """
    readers = [name for name in names if all(find(program, program.statements[name], x) is not None for x in loops)]
    before = program
    program = coalesce(program, names, loops, into)
    if any(members(program, program.statements[name], into) for name in readers):
        raise CommandError(
            f"{into} is a bundle of loops, whose numbers of iterations are no constants, and producers=True is for one "
            "loop: leave it out, and inline the producers"
        )
    done = list[str]()
    waiting = list(readers)
    while waiting:
        reader = waiting.pop(0)
        for producer in _producers(before, before.statements[reader], loops):
            if producer not in (*done, *readers):
                program = _joined(program, before, producer, reader, loops, into, command)
                done.append(producer)
                waiting.append(producer)
    if not done:
        raise CommandError(
            f"{program.statements[names[0]].handle} reads no computation point by point in the loops "
            f"{', '.join(loops)}: leave out producers=True"
        )
    return program


def _producers(program: Program, reader: Statement, loops: Sequence[str]) -> list[str]:
    """The statements that compute what a statement reads in iterations that correspond, loop by loop, to its own."""
    found = list[str]()
    for access in _reads(reader):
        statements = [s for s in program.statements_of(access.source) if s.role is Role.VALUE]
        if len(statements) != 1 or len(program.statements_of(access.source)) != 1 or statements[0].guards:
            continue
        if _corresponding(program, reader, access, statements[0], loops) is not None:
            found.append(statements[0].name)
    return list(dict.fromkeys(found))


def _reads(reader: Statement) -> list[Access]:
    return [access for part in (reader.body, *reader.guards) for access in accesses(part)]


def _corresponding(
    program: Program, reader: Statement, access: Access, producer: Statement, loops: Sequence[str]
) -> list[str] | None:
    """The names of a producer's loops that run with the given ones of its reader; None if others are between them.

    The loops around them have to correspond as well.
    """
    at = _executed(reader, access, producer)
    last = find(program, reader, loops[-1])
    if at is None or last is None or any(program.loops[x].tag is not None for x in producer.loops):
        return None
    count = reader.depth(last) + 1
    own = sets.outputs(reader.coords)[:count]
    if len(at) < count or not all(a.plain_is_equal(b) for a, b in zip(at[:count], own, strict=True)):
        return None
    return [program.loops[x].name for x in producer.loops[count - len(loops) : count]]


def _executed(reader: Statement, access: Access, producer: Statement) -> list[isl.Aff] | None:
    """The iterations of the loops of a producer that compute what an access reads, as forms of the reader."""
    form = Affine(reader.frame)
    try:
        indices = [form.single(index) for index in access.indices]
    except NotAffine:
        return None
    if not sets.is_identity(producer.point) or sets.in_size(producer.point) != len(indices):
        return None
    return sets.outputs(sets.compose(sets.function(reader.frame, None, indices), producer.coords))


def _joined(
    program: Program, before: Program, producer: str, reader: str, loops: Sequence[str], into: str, command: str
) -> Program:
    """The producer in the joined loop of its reader, before it."""
    statement, its = before.statements[producer], before.statements[reader]
    own = next(
        found
        for access in _reads(its)
        if access.source == statement.source
        and (found := _corresponding(before, its, access, statement, loops)) is not None
    )
    program = coalesce(program, [producer], own, into)
    kept = program.statements[reader]
    level = find(program, kept, into)
    assert level is not None
    program = merged(program, kept, program.statements[producer], kept.depth(level) + 1)
    level = find(program, program.statements[reader], into)
    return program.with_(orders=(*program.orders, Order(producer, reader, level, command)))


# -- the command as a value


@dataclass(frozen=True, eq=False)
class Coalesce(OnStatements):
    """Join nested loops over a box into one loop, with the same order of iterations.

    ::

        for h in 0..H:          -->   for j in 0..50*H:
            for x in 0..10:               S[j // 50, j // 5 % 10, j % 5]
                for y in 0..5:
                    S[h, x, y]                                        (coalesce(h, x, y, into=j))

    Every statement that shares the loops is changed. Where all arrays have these dimensions one after another,
    their elements are read in one run, and nothing is divided: a sum over a whole array is one loop for
    `vectorize`, and threads share all of its iterations.

    If not only the outermost of the loops has as many iterations as a size says, they stay in the program as a
    bundle, which `parallelize`, `split`, `reorder` and `tag_gpu` take as one loop::

        for h in 0..N:          -->   for j = (h, x, y):
            for x in 0..M:                S[h, x, y]
                for y in 0..K:
                    S[h, x, y]                                        (coalesce(h, x, y, into=j))

    Code numbers its iterations, and divides when a range of them begins. A call whose numbers would not fit 64
    bits is refused.

    Loops over runs that have each position once, and over the positions in them (`Function.segments`), become one loop
    over all positions, which threads share evenly; the run of a position is looked up::

        for n in 0..N:                          -->   for j in 0..E:
            for p in rows[n]..rows[n + 1]:                n = rows_of[j]
                S[n, p]                                   S[n, j]             (coalesce(n, p, into=j))

    With `producers`, the computations that are read point by point in these loops are joined alike, and run in the
    same iterations, outputs too; so are theirs::

        for h, for x: p[h, x] = e(h, x)     -->     for j: p[j // 10, j % 10] = e(j // 10, j % 10)
        for h, for x: C[] += p[h, x]                       C[] += p[j // 10, j % 10]

    ``p.inline()`` of one that is no output, before or after, saves its array.

    Raises `CommandError` for loops that are tagged, not directly nested, or no box, with an iteration that is
    missing. Source: Zhao et al., Panamera; OpenMP's ``collapse``, Halide's ``fuse``.
    """

    many = "loops"

    loops: tuple[Iter, ...]
    _: KW_ONLY
    into: Iter
    producers: bool = False

    @classmethod
    def called(cls, of: Named, *loops: Iter, into: Iter | None = None, producers: bool = False) -> Self:
        if into is None:
            names = ", ".join(map(str, loops))
            raise CommandError(f"coalesce({names}) needs a name for the loop that it makes: coalesce({names}, into=j)")
        return cls(of, loops, into=into, producers=producers)

    def applied(self, program: Program) -> Program:
        names, loops, into = self.names(program), [loop_name(x) for x in self.loops], loop_name(self.into)
        if self.producers:
            return with_producers(program, names, loops, into, self.text)
        return coalesce(program, names, loops, into)
