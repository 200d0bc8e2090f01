"""The loops of a group before any command: those of values that depend on each other are shared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tiramisu_py.algorithm.declarations import Computation
from tiramisu_py.algorithm.declare.shared_loops import SharedLoop, shared_loops
from tiramisu_py.algorithm.declare.soundness import ValueSets
from tiramisu_py.program.editing import delayed, reversed_loop
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement


def in_shared_loops(program: Program, members: Sequence[Computation]) -> Program:
    """The program in which computations whose values depend on each other share loops, in the order of their reads.

    The program stays as it is where no order of loops is found: commands may give one, and the proof asks for it.
    """
    reads = ValueSets(program.algorithm).between(members)
    nests = shared_loops([each.name for each in members], reads, {each.name: len(each.iterators) for each in members})
    if nests is None:
        return program
    for nest in nests:
        program = _shared(program, nest)
    ordered = [name for nest in nests for name in ((nest,) if isinstance(nest, str) else nest.members)]
    return _in_order(program, ordered)


def _shared(program: Program, nest: SharedLoop | str) -> Program:
    """The program in which the computations of a nest have its loops."""
    if isinstance(nest, str):
        return program
    for name in nest.members:
        for loop in {s.loops[nest.depth]: None for s in program.statements_of(name)}:
            program = reversed_loop(program, loop) if nest.is_reversed else program
            program = delayed(program, loop, nest.delays[name]) if nest.delays[name] else program
    if len(nest.members) > 1:
        program = _with_one_loop(program, nest)
    for each in nest.inside:
        program = _shared(program, each)
    return program


def _with_one_loop(program: Program, nest: SharedLoop) -> Program:
    """All statements of a nest in the loop of the first one."""
    statements = [s for name in nest.members for s in program.statements_of(name)]
    loop = statements[0].loops[nest.depth]
    return _without_unused_loops(program.with_statement(*[_in_loop(s, nest.depth, loop) for s in statements]))


def _in_loop(statement: Statement, depth: int, loop: int) -> Statement:
    return replace(statement, loops=(*statement.loops[:depth], loop, *statement.loops[depth + 1 :]))


def _without_unused_loops(program: Program) -> Program:
    used = {loop for statement in program.statements.values() for loop in statement.loops}
    return program.with_(loops={number: loop for number, loop in program.loops.items() if number in used})


def _in_order(program: Program, sources: Sequence[str]) -> Program:
    """The program with the statements of some computations last, in this order, which settles ties."""
    last = {s.name: s for source in sources for s in program.statements_of(source)}
    others = {name: s for name, s in program.statements.items() if name not in last}
    return program.with_(statements={**others, **last})
