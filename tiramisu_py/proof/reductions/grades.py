"""Grades of bits: how far those of a reduction hold under a schedule, and what keeps them from a higher grade.

The grade is that of the weakest cause: a command that combines terms in an order other than that of the declaration.

====================== ===================================================================================
grade                  causes
====================== ===================================================================================
``ordered``            none; or no order changes a bit: integers, minima and maxima, argmin and argmax
``everywhere``         loops in another order, lanes, `rfactor`, `reassociate`, the tree of one block
``run_to_run``         private copies of threads in a static schedule; what depends on the number of ranks;
                       instructions that multiply matrices of floats
``not_guaranteed``     atomic updates, dynamic schedules, several blocks or trees that add to one element, MPI
====================== ===================================================================================

Minima and maxima of floats are the same in any order but for the sign of zero and the payloads of NaN.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Algorithm, Computation
from tiramisu_py.algorithm.expressions import Param
from tiramisu_py.algorithm.operators import Determinism
from tiramisu_py.algorithm.traversal import walk
from tiramisu_py.dependence import kernel_order
from tiramisu_py.dependence.access import MemoryAccess
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.errors import Violation, Witness
from tiramisu_py.program.loops import Combine, GpuBlock, GpuThread, Loop, Parallel, Tag, TensorLoop, Vector
from tiramisu_py.program.machine.tensor_instructions import TensorInstruction, tensor_instruction
from tiramisu_py.program.ordering import shared
from tiramisu_py.program.program import Program
from tiramisu_py.program.ranks.told_ranks import told_ranks
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.program.storage import Memory
from tiramisu_py.proof.kernels.threads import nests_by_statement
from tiramisu_py.proof.memory.races import pair_spots, race_at
from tiramisu_py.proof.reductions.bits import (
    Pairs,
    chooses,
    combined_apart,
    in_order,
    is_reordered,
    is_split,
    out_of_order,
    whole_of,
)
from tiramisu_py.proof.reductions.bits import rounds as may_round
from tiramisu_py.proof.reductions.chains import Chains
from tiramisu_py.proof.violations.findings import Finding, Key, wanted
from tiramisu_py.records import dataclass

#: What a grade says of the order in which terms are combined.
MEANING = {
    Determinism.ORDERED: "the order does not matter",
    Determinism.EVERYWHERE: "the order follows from the schedule and the sizes",
    Determinism.RUN_TO_RUN: "the order depends on the number of threads or ranks",
    Determinism.NOT_GUARANTEED: "the order may be another one in each run",
}


@dataclass(frozen=True, eq=False)
class Cause:
    """A reason why the bits of a reduction have no higher grade, in words, and the terms that show it, if there are.

    `repair` gives the next grade, and `everywhere`, if it is another one, that grade.
    """

    grade: Determinism
    what: str
    repair: str
    pairs: Pairs | None = None
    everywhere: str = ""

    def repaired(self, least: Determinism, over: str) -> str:
        """The commands to write for a grade."""
        if least is Determinism.ORDERED:
            return f"run the loops over {over} in order, without combine= and rfactor, or declare {_asked(self.grade)}"
        return self.everywhere if least is Determinism.EVERYWHERE and self.everywhere else self.repair


def grade(flow: Flow, name: str) -> Determinism:
    """The grade of a reduction, as the user has declared it: with the partial results that `rfactor` has made of it."""
    return min((cause.grade for cause in causes(flow, name)), default=Determinism.ORDERED)


def grades(flow: Flow) -> Mapping[str, Determinism]:
    """The grades of the reductions that the user has declared, by name."""
    declared = flow.accesses.program.algorithm.as_declared
    return {name: grade(flow, name) for name, each in declared.computations.items() if each.is_reduction}


def causes(flow: Flow, name: str) -> Iterator[Cause]:
    """Why the grade of a reduction is not `ordered`."""
    program = flow.accesses.program
    algorithm = program.algorithm
    computation = whole_of(algorithm, algorithm.computations[name])
    if not may_round(computation) or chooses(computation):
        return
    for part in _parts(algorithm, name):
        if not algorithm.computations[part].is_reduction:  # a copy of what its next part adds
            yield from _reassociated(algorithm, part)
            continue
        if is_split(program, part):
            yield from _split(program, algorithm.computations[part])
        if is_reordered(flow, part):
            yield from _reordered(flow, program.algorithm.computations[part])


def findings(flow: Flow, sought: Key | None = None) -> Iterator[Finding]:
    """The reductions whose bits are not those that their declaration asks for."""
    for name, computation in flow.accesses.program.algorithm.as_declared.computations.items():
        key, least = Key("determinism", (name,)), computation.determinism
        if least is not None and computation.is_reduction and wanted(key, sought):
            found = min(causes(flow, name), key=lambda cause: cause.grade, default=None)
            if found is not None and found.grade < least:
                yield Finding(key, partial(_weaker, flow, computation, least, found))


def _weaker(flow: Flow, computation: Computation, least: Determinism, cause: Cause) -> Violation:
    message = f"{computation.name} is declared determinism={str(least)!r}, but {cause.what}"
    repair = cause.repaired(least, ", ".join(computation.over))
    if cause.pairs is None:
        return Violation("reduction", message, Witness({}, reader=(computation.name, ())), repair=repair)
    witness, *_ = pair_spots(flow, *cause.pairs)
    return Violation("reduction", f"{message}, {witness}", witness, repair=repair)


def _parts(algorithm: Algorithm, name: str) -> list[str]:
    """The reductions that compute a declared one: itself, and its partial results."""
    found = [name]
    for partial_result, whole in algorithm.wholes.items():
        if whole.name in found:
            found.append(partial_result)
    return found


# -- causes


def _split(program: Program, computation: Computation) -> Iterator[Cause]:
    """The order of the sums of partial results: constant, unless it depends on the number of ranks."""
    yield from _reassociated(program.algorithm, computation.name)
    of = _parts(program.algorithm, computation.name)[1:]
    if not of:
        return
    what = f"rfactor sums its terms in partial results, {', '.join(of)}"
    yield Cause(Determinism.EVERYWHERE, what, f"leave out rfactor, or declare {_asked(Determinism.EVERYWHERE)}")
    machine = _of_machine(program)
    if any(_mentions(program.algorithm.computations[part].points, machine) for part in of):
        yield Cause(
            Determinism.RUN_TO_RUN, f"its partial results, {', '.join(of)}, depend on the number of ranks",
            "give rfactor a loop over blocks of a constant size",
        )  # fmt: skip


def _reassociated(algorithm: Algorithm, name: str) -> Iterator[Cause]:
    """The order of products and sums, if `reassociate` or `sum_first` has changed it."""
    if name in algorithm.reassociated:
        what = f"products and sums are in another order, in {algorithm.reassociated[name]}"
        repair = f"leave out reassociate or sum_first, or declare {_asked(Determinism.EVERYWHERE)}"
        yield Cause(Determinism.EVERYWHERE, what, repair)


def _reordered(flow: Flow, computation: Computation) -> Iterator[Cause]:
    """The causes in the loops of one reduction."""
    chains = Chains.of(flow, computation)
    over = ", ".join(computation.over)
    pairs = out_of_order(flow, computation.name)
    if pairs is not None:
        what, repair = "two terms are combined in another order", f"keep the order of the loops over {over}"
        yield Cause(Determinism.EVERYWHERE, what, repair, pairs)
    for a in chains.updates:
        yield from _by_executors(chains, a)
        yield from _by_threads(chains, a)
        for b in chains.updates:
            if a.home == b.home:
                yield from _by_loops(chains, a, b)


def _by_loops(chains: Chains, a: MemoryAccess, b: MemoryAccess) -> Iterator[Cause]:
    """The loops whose iterations combine terms of one value in an order of their own."""
    first, second = a.actor.statement, b.actor.statement
    assert first is not None and second is not None
    program = chains.flow.accesses.program
    for depth in range(shared(first, second)):
        found = _of_loop(program.loops[first.loops[depth]], first.handle)
        if found is not None:
            bad = race_at(a, b, in_order(chains, a, b), depth, None)
            if not bad.is_empty():
                yield replace(found, pairs=(a, b, bad))


def _by_executors(chains: Chains, merge: MemoryAccess) -> Iterator[Cause]:
    """Partial results that ranks combine; those of the threads of a block have an order that is always the same."""
    statement = merge.actor.statement
    assert statement is not None
    if merge.role is not Role.MERGE or statement.link.combination is None or not statement.link.combination.axes:
        return
    for pairs in combined_apart(chains, merge):
        yield replace(_of_ranks(chains.flow.accesses.program, statement), pairs=pairs)
        return


def _by_threads(chains: Chains, merge: MemoryAccess) -> Iterator[Cause]:
    """Trees of several threads of a block that merge into one element, with no barrier between them."""
    statement, flow = merge.actor.statement, chains.flow
    assert statement is not None
    if merge.role is not Role.MERGE or statement.link.combination is None or merge.buffer.memory is Memory.REGISTER:
        return
    nests = nests_by_statement(flow)
    nest = nests.get(merge.actor.name)
    for other in chains.updates:
        if nest is None or other.home != merge.home or nests.get(other.actor.name) is not nest:
            continue
        met = kernel_order.contending(nest, merge, other, flow.same_place(merge, other))
        bad = met if met.is_empty() else kernel_order.unsynchronised(nest, merge, other, met)
        if not bad.is_empty():
            what = "threads of a block add what their trees collect to one element, in the order in which they come"
            repair = f"run loops of {statement.handle} on threads of which one tree has all terms of an element"
            yield Cause(Determinism.NOT_GUARANTEED, what, repair, (merge, other, bad))
            return


def _of_ranks(program: Program, merge: Statement) -> Cause:
    """The effect of the combination of ranks on the bits: a tree of their numbers is the same for the same ranks."""
    assert merge.link.combination is not None
    if not merge.link.combination.tree:
        what = "MPI combines the partial results of ranks in an order of its own"
        repair = f"use combine=tm.TREE for the loop over ranks of {merge.handle}"
        return Cause(Determinism.NOT_GUARANTEED, what, repair)
    what, repair = "ranks combine their partial results in a tree", "keep the terms of a value on one rank"
    if _of_machine(program):
        return Cause(Determinism.RUN_TO_RUN, f"{what}, and their number is only known when it runs", repair)
    return Cause(Determinism.EVERYWHERE, what, repair)


def _of_loop(loop: Loop, handle: str) -> Cause | None:
    """The effect of a loop on the terms of one value of an update; None for ordinary loops."""
    name, tag = loop.name, loop.tag
    combine: Combine | None = getattr(tag, "combine", None)
    parts = f"{handle}.parallelize({name}, combine=tm.TREE), after split where each iteration of {name} is one term"
    if combine is Combine.ATOMIC:
        what = f"loop {name} combines terms by tm.ATOMIC, in the order in which they arrive"
        everywhere = parts if isinstance(tag, Parallel) else ""
        return Cause(Determinism.NOT_GUARANTEED, what, _instead_of_atomic(tag, handle, name), everywhere=everywhere)
    if combine is Combine.LOCK:
        what = f"the blocks of loop {name} add what they collect one after another, in the order in which they come"
        return Cause(Determinism.NOT_GUARANTEED, what, _instead_of_atomic(tag, handle, name))
    if isinstance(tag, GpuBlock) and combine is Combine.TREE:
        what = f"the blocks of loop {name} add what they collect to one element, in the order in which they end"
        return Cause(Determinism.NOT_GUARANTEED, what, f"give the command that runs {handle} across=tm.TWO_PASS")
    if isinstance(tag, Parallel) and combine is Combine.PRIVATE and tag.schedule != "static":
        what = f"schedule={tag.schedule!r} of loop {name} deals out terms to threads as they come"
        return Cause(Determinism.NOT_GUARANTEED, what, f'use schedule="static" for loop {name}', everywhere=parts)
    if isinstance(tag, Parallel) and combine is Combine.PRIVATE:
        what = f"loop {name} combines the partial results of threads, so that bits depend on the number of threads"
        return Cause(Determinism.RUN_TO_RUN, what, parts)
    if isinstance(tag, TensorLoop):
        instruction = tensor_instruction(tag.instruction)
        what = f"{instruction.name} adds the terms of loop {name} in its own way: {instruction.given_up}"
        return Cause(Determinism.RUN_TO_RUN, what, f"leave {handle}.tensorize(..) out")
    if isinstance(tag, Vector | GpuThread) and combine is not None:
        what = f"loop {name} combines the partial results of its {'lanes' if isinstance(tag, Vector) else 'threads'}"
        return Cause(Determinism.EVERYWHERE, what, f"leave out combine=tm.{combine.name} of loop {name}")
    return None


def tensorized(program: Program, name: str) -> TensorInstruction | None:
    """The instruction on matrices that adds terms of a reduction; None if there is none."""
    tags = (program.loops[loop].tag for part in _parts(program.algorithm, name) for s in program.statements_of(part)
            for loop in s.loops)  # fmt: skip
    return next((tensor_instruction(tag.instruction) for tag in tags if isinstance(tag, TensorLoop)), None)


def _instead_of_atomic(tag: Tag | None, handle: str, name: str) -> str:
    if isinstance(tag, Parallel):
        return f"{handle}.parallelize({name}, combine=tm.PRIVATE)"
    if isinstance(tag, Vector):
        return f"{handle}.vectorize({name}, {tag.width}, combine=tm.PRIVATE)"
    return f"give the command that runs {handle} combine=tm.TREE, and across=tm.TWO_PASS if blocks add to one element"


def _asked(least: Determinism) -> str:
    return f"determinism={str(least)!r}"


def _of_machine(program: Program) -> tuple[str, ...]:
    """The parameters that stand for the number of ranks, or for the part of one."""
    found = [e.name for extent in program.ranks.grid for e in walk(extent) if isinstance(e, Param)]
    return tuple(dict.fromkeys([*found, *told_ranks(program).bounds]))


def _mentions(domain: isl.Set, names: tuple[str, ...]) -> bool:
    """Whether conditions of a set depend on some parameters."""
    return bool(set(sets.involved_params(domain)) & {*names}) if names else False
