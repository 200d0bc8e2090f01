"""The loops before any command: of values that depend on each other, in the order of their reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tiramisu_py.algorithm.declarations import Computation
from tiramisu_py.algorithm.declare.shared_loops import SharedLoop, is_in_order, shared_loops
from tiramisu_py.algorithm.declare.soundness import ValueSets
from tiramisu_py.algorithm.traversal import accesses
from tiramisu_py.program.editing import Rewrite, delayed, reversed_loop
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement


def in_order_of_reads(program: Program, members: Sequence[Computation]) -> Program:
    """The program in which values that depend on each other are computed before they are read, if they can be.

    Computations of a group share loops for it. Loops keep the order and the direction of the declaration where that
    serves; `Program.turned` says which do not. The program stays as it is where no order of loops is found: commands
    may give one, and the proof asks for it.
    """
    names = [each.name for each in members]
    if not any(read.source in names for c in members for e in (c.expr, *c.guards) for read in accesses(e)):
        return program
    reads = ValueSets(program.algorithm).between(members)
    if not reads or (len(members) == 1 and all(map(is_in_order, reads.values()))):
        return program
    nests = shared_loops(names, reads, {each.name: len(each.iterators) for each in members})
    if nests is None:
        return program
    declared = program
    for name in names:
        program = _in_order_of_dims(program, name, [nest.dims[name] for nest in _around(name, nests)])
    for nest in nests:
        program = _shared(program, nest)
    ordered = [name for nest in nests for name in ((nest,) if isinstance(nest, str) else nest.members)]
    said = [*_interchanged(declared, names, nests), *_reversed(program, nests)]
    return _in_order(program, ordered).with_(turned=(*program.turned, *said))


def _around(name: str, nests: Sequence[SharedLoop | str]) -> Iterator[SharedLoop]:
    """The loops around a computation, outermost first."""
    for nest in nests:
        if isinstance(nest, SharedLoop) and name in nest.members:
            yield nest
            yield from _around(name, nest.inside)


def _in_order_of_dims(program: Program, name: str, first: Sequence[int]) -> Program:
    """The program in which the loops over some dimensions of a computation's values are the outermost ones."""
    if list(first) == list(range(len(first))):
        return program
    dims = [*first, *(dim for dim in range(max(first)) if dim not in first)]
    back = [dims.index(dim) for dim in range(len(dims))]
    for old in {s.loops[: len(dims)]: None for s in program.statements_of(name)}:
        new = tuple(program.loops[old[dim]] for dim in dims)
        program = Rewrite(old, new, lambda c: [c[d] for d in dims], lambda c: [c[d] for d in back]).applied(program)
    return program


def _interchanged(declared: Program, names: Sequence[str], nests: Sequence[SharedLoop | str]) -> Iterator[str]:
    """The words for loops in another order."""
    for name in names:
        first = [nest.dims[name] for nest in _around(name, nests)]
        if first != list(range(len(first))):
            loops = declared.loop_names(declared.statements_of(name)[0])
            yield f"{name} runs {', '.join(loops[dim] for dim in first)} outermost"


def _reversed(program: Program, nests: Sequence[SharedLoop | str]) -> Iterator[str]:
    """The words for loops that run backwards."""
    for nest in nests:
        if isinstance(nest, SharedLoop):
            loop = program.loop_names(program.statements_of(nest.members[0])[0])[nest.depth]
            if nest.is_reversed:
                yield f"{_listed(nest.members)} {loop} backwards"
            yield from _reversed(program, nest.inside)


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names)} {'runs' if len(names) == 1 else 'run'}"


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
