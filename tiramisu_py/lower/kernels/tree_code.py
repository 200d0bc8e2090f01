"""Reductions over threads and blocks: atomic updates, and partial results that a block combines as a tree.

The completion has made the statements of a tree (`derive.barriers.tree_reductions`), and the proof has checked them.
Here they become code: every thread executes the start, a store. The combination, with an instance for each thread,
becomes one statement that all threads reach, and includes the merge. The partial result, one for each iteration
around, becomes one variable of the thread, since no iteration uses it after its merge.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Computation, Operator, value_names
from tiramisu_py.algorithm.expressions import as_typed
from tiramisu_py.errors import CompilerDefect
from tiramisu_py.ir import Load, Store, TreeReduce
from tiramisu_py.lower.statements.index_set_splitting import DomainPiece
from tiramisu_py.lower.statements.instances import Instance
from tiramisu_py.lower.statements.operation import LoweredOperation, Template
from tiramisu_py.program.kernels import KernelNest, is_tree
from tiramisu_py.program.loops import GpuThread, LoopId
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.program.storage import Memory


def is_met(nest: KernelNest, statement: Statement) -> bool:
    """Whether more than one thread of a launch updates the same element, so that updates must be atomic."""
    program = nest.program
    buffer = program.storages[statement.target].buffer
    if statement.role is not Role.UPDATE or program.buffers[buffer].memory is Memory.REGISTER:
        return False
    others = [other for other in nest.statements if other.stores and program.storages[other.target].buffer == buffer]
    if any(other.role is Role.MERGE for other in others):
        return True
    found = sets.united(_threads_by_place(nest, other) for other in others if other.role is Role.UPDATE)
    return found is not None and not found.is_single_valued()


def _threads_by_place(nest: KernelNest, statement: Statement) -> isl.Map:
    """``[iteration of the host, place] -> [block, thread]``."""
    program, outer = nest.program, len(nest.host)
    place = program.place(statement, program.storages[statement.target], program.value_of(statement))
    around = sets.joined(statement.prefix(outer), sets.renamed(place, None))
    where = sets.joined(nest.block_of(statement), nest.thread_of(statement))
    instances = statement.instances.intersect_params(program.context)
    return sets.graph(around, instances).reverse().apply_range(sets.graph(where, instances))


@dataclass(frozen=True, eq=False)
class Tree:
    """One update that is combined as a tree: the statements that start, combine and merge its partial results."""

    nest: KernelNest
    start: Statement
    combined: Statement
    merge: Statement

    @property
    def of(self) -> str:
        """The name of the update."""
        assert self.combined.combination is not None
        return self.combined.combination.of

    @property
    def partial(self) -> Instance:
        """The partial result of a thread."""
        return Instance(self.start.target, replace(self.nest.program.buffers[self.start.target], scope=()))

    @property
    def around(self) -> tuple[LoopId, ...]:
        """The loops around the tree: in each iteration, all threads have partial results for one element."""
        values = len(value_names(self.nest.program.algorithm.source(self.merge.source)))
        return self.merge.loops[: len(self.merge.loops) - values]

    def scheduled(self, program: Program) -> Program:
        """The program in which all threads execute the start and the combination, which includes the merge."""
        statements = {name: s for name, s in program.statements.items() if name != self.merge.name}
        program = program.with_(statements=statements)
        return program.with_statement(self._uniform(self.start), self._uniform(self.combined))

    def _uniform(self, statement: Statement) -> Statement:
        """A statement that all threads of a block execute, without loops over threads and values."""
        count = len(self.around)
        instances = statement.instances.intersect_params(self.nest.program.context)
        found = sets.named(sets.project_prefix(instances, count).coalesce(), statement.name)
        identity = sets.identity(found.get_space())
        return replace(
            statement, dims=statement.dims[:count], instances=found, point=identity, loops=self.around,
            coords=sets.renamed(identity, None),
        )  # fmt: skip

    def bodies(self, program: Program) -> list[LoweredOperation]:
        """The code of the start and of the combination."""
        name, dtype = self.partial.name, self.partial.buffer.dtype
        start, end = program.statements[self.start.name], program.statements[self.combined.name]
        store = Store(name, (), as_typed(self.start.body, dtype), self.of)
        begin = LoweredOperation(
            DomainPiece(start.name, start, start.instances, start.body), (), store, frozenset({name})
        )
        piece = DomainPiece(end.name, end, end.instances, end.body)
        here, template = sets.identity(piece.frame), Template()
        indices = template.places([sets.pulled(form, here) for form in sets.as_function(self._element(end))])
        target = self.nest.program.storages[self.merge.target].buffer
        operator = cast(Operator, cast(Computation, self.nest.program.algorithm.source(self.merge.source)).op)
        reduce = TreeReduce(target, indices, Load(name, (), dtype), operator, self.of)
        return [begin, LoweredOperation(piece, tuple(template.forms), reduce, frozenset({name, target}))]

    def _element(self, everyone: Statement) -> isl.PwMultiAff:
        """``iterations around -> element`` into which partial results are merged, the same for all threads."""
        program, merge, count = self.nest.program, self.merge, len(self.around)
        storage = program.storages[merge.target]
        place = program.place(merge, storage, program.value_of(merge))
        owners = len(program.buffers[storage.buffer].scope)
        element = sets.function(merge.frame, None, sets.outputs(place)[owners:])
        instances = merge.instances.intersect_params(program.context)
        relation = sets.graph(merge.prefix(count), instances).reverse().apply_range(sets.graph(element))
        for position, loop in enumerate(self.around):
            if isinstance(program.loops[loop].tag, GpuThread):
                relation = sets.freed_input(relation, position)
        relation = relation.intersect_domain(sets.named(everyone.instances, None))
        return sets.piecewise(relation.coalesce())


def trees(nest: KernelNest) -> list[Tree]:
    """The trees of a kernel, from the statements that the completion has made."""
    partials = {s.target for s in nest.statements if s.role is Role.COMBINE}
    for statement in nest.statements:
        if is_tree(nest.program, statement) and statement.target not in partials:
            name = statement.name
            raise CompilerDefect(f"{name} is combined as a tree, but threads of a block update different elements")
    by_role: dict[tuple[str, Role], Statement] = {}
    for statement in nest.statements:
        if statement.combination is not None:
            by_role[statement.combination.of, statement.role] = statement
    updates = [of for of, role in by_role if role is Role.COMBINE]
    return [Tree(nest, *(by_role[of, role] for role in (Role.INIT, Role.COMBINE, Role.MERGE))) for of in updates]
