"""Whether the terms of floating-point reductions are combined in lexicographic order, so that every bit is the same."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Algorithm, Computation
from tiramisu_py.algorithm.expressions import Access
from tiramisu_py.algorithm.operators import argmax, argmin, max_, min_
from tiramisu_py.algorithm.types import TupleType
from tiramisu_py.dependence.access import MemoryAccess
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.errors import Violation
from tiramisu_py.program.loops import Combine, GpuBlock, GpuThread, Parallel, Rank, Tag, TensorLoop, Vector
from tiramisu_py.program.ordering import shared
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.proof.memory.races import pair_spots, race_at
from tiramisu_py.proof.reductions.chains import Chains
from tiramisu_py.proof.violations.findings import Finding, Key, wanted, words

#: Two updates, and ``a -> b`` of the instances of them.
Pairs = tuple[MemoryAccess, MemoryAccess, isl.Map]


def reordered(flow: Flow) -> Iterator[str]:
    """The reductions of floating-point numbers whose terms are combined in another order than the algorithm's."""
    algorithm = flow.accesses.program.algorithm
    for name, computation in algorithm.computations.items():
        if name in algorithm.wholes or not algorithm.computations[with_terms(algorithm, name)].is_reduction:
            continue
        if rounds(whole_of(algorithm, computation)) and is_reordered(flow, name):
            yield name


def whole_of(algorithm: Algorithm, computation: Computation) -> Computation:
    """A reduction as it was before commands took it apart."""
    return next((whole for whole in algorithm.wholes.values() if whole.name == computation.name), computation)


def with_terms(algorithm: Algorithm, name: str) -> str:
    """Who adds the terms of a reduction, or combines its partial results: what it copies, after `accumulate`."""
    own = algorithm.computations[name]
    while not own.is_reduction and isinstance(own.expr, Access) and own.expr.source in algorithm.wholes:
        own = algorithm.computations[own.expr.source]
    return own.name


def chooses(computation: Computation) -> bool:
    """Whether the result is a term, whatever the order: of zeros and NaN it may be another one that compares alike."""
    return not isinstance(computation.dtype, TupleType) and any(computation.op is each for each in (min_, max_))


def rounds(computation: Computation) -> bool:
    """Whether the order of terms may change a bit: on floats, unless one of the terms is chosen in any order."""
    dtype = computation.dtype
    if isinstance(dtype, TupleType):
        is_index = any(computation.op is each for each in (argmin, argmax))
        return not is_index and any(own.is_float for _, own in dtype.fields)
    return dtype.is_float


def is_reordered(flow: Flow, name: str) -> bool:
    """Whether two terms of one value of a reduction are combined in another order than the lexicographic one."""
    program = flow.accesses.program
    return is_split(program, name) or out_of_order(flow, with_terms(program.algorithm, name)) is not None


def is_split(program: Program, name: str) -> bool:
    """Whether terms of a reduction are combined with others first (by `rfactor` or `reassociate`)."""
    algorithm, own = program.algorithm, with_terms(program.algorithm, name)
    is_reassociated = not {name, own}.isdisjoint(algorithm.reassociated)
    return is_reassociated or any(whole.name == own for whole in algorithm.wholes.values())


def findings(flow: Flow, sought: Key | None = None) -> Iterator[Finding]:
    """The reductions declared `ordered` whose order is not kept, and others that combine terms that are no neighbours.

    An operator that is not commutative may combine partial results of threads that have consecutive iterations.
    """
    for name, computation in flow.accesses.program.algorithm.computations.items():
        key = Key("order", (name,))
        if computation.is_reduction and computation.in_order and wanted(key, sought):
            pairs = out_of_order(flow, name, neighbours=not computation.ordered)
            if pairs is not None:
                yield Finding(key, partial(_unlocked, flow, computation, *pairs))


def out_of_order(flow: Flow, name: str, neighbours: bool = False) -> Pairs | None:
    """``a -> b`` of terms of one value, of which a is the earlier one, but is not combined before b; None if there are
    none.
    """
    return flow.kept(("out of order", name, neighbours), lambda: next(_all_out_of_order(flow, name, neighbours), None))


def order_of_terms(program: Program, name: str) -> tuple[object, ...]:
    """A key for the order in which one statement adds terms: two states of a program with equal keys add them alike."""
    name = with_terms(program.algorithm, name)
    found = program.statements_of(name)
    updates = [statement for statement in found if statement.role is Role.UPDATE]
    if len(updates) != 1:
        return (program,)
    loops = tuple((loop, program.loops[loop].tag) for statement in found for loop in statement.loops)
    return loops, tuple(id(statement.coords) for statement in found), program.algorithm.computations[name].expr


def may_be_combined(program: Program, name: str) -> bool:
    """Whether the completion may add statements that combine terms of a reduction: those of ranks, or of threads of a
    GPU.
    """
    name = with_terms(program.algorithm, name)
    whole = program.algorithm.computations[name]
    for statement in program.statements_of(name):
        if statement.role is not Role.UPDATE:
            continue
        terms = _axes_of_terms(statement, len(whole.iterators))
        for loop, form in zip(statement.loops, sets.outputs(statement.coords), strict=True):
            if sets.axes_of(form) & terms and isinstance(program.loops[loop].tag, GpuThread | Rank):
                return True
    return False


def _axes_of_terms(statement: Statement, dimensions: int) -> set[int]:
    """The axes of an update's frame on which its term depends, and those that are tied to them."""
    found = {axis for form in sets.outputs(statement.point)[dimensions:] for axis in sets.axes_of(form)}
    for tied in sets.tied_axes(statement.instances):
        if tied & found:
            found |= tied
    return found


def _all_out_of_order(flow: Flow, name: str, neighbours: bool) -> Iterator[Pairs]:
    computation = flow.accesses.program.algorithm.computations.get(name)
    if computation is None:
        return
    chains = Chains.of(flow, computation)
    for a in chains.updates:
        for b in chains.updates:
            if a.home == b.home:
                bad = _late(chains, a, b, neighbours)
                if not bad.is_empty():
                    yield a, b, bad
    for merge in chains.updates:
        yield from combined_apart(chains, merge)


def combined_apart(chains: Chains, merge: MemoryAccess) -> Iterator[Pairs]:
    """``a -> b`` of terms on different executors, which are combined in an order that the executors choose."""
    if merge.role is Role.MERGE:
        assert merge.actor.statement is not None
        consumed = list(chains.consumed(merge.actor.statement))
        for a, into in consumed:
            for b, other in consumed:
                terms, others = chains.terms(a), chains.terms(b)
                rising = terms.apply_range(isl.Map.lex_lt(terms.get_space().range())).apply_range(others.reverse())
                bad = into.apply_range(other.reverse()).intersect(rising).subtract(chains.flow.same_place(a, b))
                if not bad.is_empty():
                    yield a, b, bad


def _late(chains: Chains, a: MemoryAccess, b: MemoryAccess, neighbours: bool) -> isl.Map:
    """``a -> b`` of one chain where the term of a is the earlier one, but a does not come before b in time.

    With `neighbours`, threads with consecutive iterations, whose partial results are combined in order, count as one
    after another.
    """
    flow, first, second = chains.flow, a.actor.statement, b.actor.statement
    assert first is not None and second is not None
    ascending = in_order(chains, a, b)
    if ascending.is_empty():
        return ascending
    earlier = flow.precedence.before(a, b, ascending)
    late = ascending if earlier is None else ascending.subtract(earlier)
    for depth in range(shared(first, second)):
        loop = flow.accesses.program.loops[first.loops[depth]]
        if neighbours and _in_ranges(loop.tag):
            continue
        combined = isinstance(loop.tag, Parallel | Vector | GpuBlock) and loop.tag.combine not in (
            None,
            Combine.ORDERED,
        )
        if combined or isinstance(loop.tag, TensorLoop):
            late = late.union(race_at(a, b, ascending, depth, None))
    return late


def in_order(chains: Chains, a: MemoryAccess, b: MemoryAccess) -> isl.Map:
    """``a -> b`` of one chain where the term of a is the earlier one."""
    first, second = a.actor.statement, b.actor.statement
    assert first is not None
    terms, others = chains.terms(a), chains.terms(b)
    chain = chains.same(a, b)
    if first is second and first.role is Role.MERGE:
        chain = chain.subtract(sets.graph(sets.identity(a.domain.get_space())))  # its terms are combined before it
    if chain.is_empty():
        return chain
    earlier = isl.Map.lex_lt(terms.get_space().range())
    return chain.intersect(terms.apply_range(earlier).apply_range(others.reverse()))


def _in_ranges(tag: Tag | None) -> bool:
    """Whether each thread has consecutive iterations, and their partial results are combined in order."""
    in_one_range = isinstance(tag, Parallel) and tag.schedule == "static" and tag.chunk is None
    return in_one_range and tag.combine is Combine.PRIVATE  # type: ignore[union-attr]


def _unlocked(flow: Flow, c: Computation, a: MemoryAccess, b: MemoryAccess, bad: isl.Map) -> Violation:
    witness, one, _ = pair_spots(flow, a, b, bad)
    kept = f"{c.name} is ordered" if c.ordered else f"{c.op} of {c.name} is not commutative"
    message = f"{kept}, but two terms of {words(one.named)} are combined in another order, {witness}"
    over = ", ".join(c.over)
    repair = f"keep the order of the loops over {over}"
    program = flow.accesses.program
    if not c.ordered and any(program.loops[loop].is_gpu for s in program.statements_of(c.name) for loop in s.loops):
        repair = (
            f"on a GPU, give each thread neighbours before the loops are tagged: {c.name}.update.split({c.over[0]}, "
            f"64, {c.over[0]}0, {c.over[0]}1), then {c.name}.update.rfactor({c.over[0]}0), and run loop {c.over[0]}0 "
            "of its partial results there, without combine="
        )
    elif not c.ordered:
        repair += ", without combine= but parallelize(..., combine=tm.PRIVATE), whose threads have ranges of neighbours"
    return Violation("reduction", message, witness, repair=repair)
