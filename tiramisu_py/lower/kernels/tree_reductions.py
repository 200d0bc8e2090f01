"""Reductions over threads and blocks: atomic updates, and partial results that a block combines as a tree.

A tree: each thread keeps its own partial result, from the neutral element on; when no thread of the block will update
it any more, the block combines all of them, and one thread adds the result to the element.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Computation, Operator
from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.algorithm.traversal import rewrite
from tiramisu_py.errors import CompilerDefect
from tiramisu_py.ir import Load, Store, TreeReduce
from tiramisu_py.ir.expressions import neutral
from tiramisu_py.lower.statements.arrays import Array
from tiramisu_py.lower.statements.body import Body
from tiramisu_py.lower.statements.index_set_splitting import Piece
from tiramisu_py.lower.statements.loop_names import unique
from tiramisu_py.lower.statements.operation import Operation, Template
from tiramisu_py.program.kernels import KernelNest, all_threads, is_tree
from tiramisu_py.program.loops import GpuThread, LoopId
from tiramisu_py.program.ordering import Order
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.program.storage import Buffer, Memory
from tiramisu_py.proof.reductions.trees import element_of_block


def is_met(nest: KernelNest, statement: Statement) -> bool:
    """Whether an update's element is updated by more than one thread of the launch."""
    program = nest.program
    buffer = program.storages[statement.target].buffer
    if statement.role is not Role.UPDATE or program.buffers[buffer].memory is Memory.REGISTER:
        return False
    found: isl.Map | None = None
    for other in nest.statements:
        if other.role is Role.UPDATE and program.storages[other.target].buffer == buffer:
            part = _threads_by_place(nest, other)
            found = part if found is None else found.union(part)
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
    """One update that is combined as a tree.

    The element is the same, `element`, for all threads of a block while the loops `around` stay in one iteration.
    """

    nest: KernelNest
    statement: Statement
    partial: Array
    around: tuple[LoopId, ...]
    element: isl.PwMultiAff

    @property
    def first(self) -> str:
        """The name of what starts the partial results; no user's name looks like it."""
        return f"@start {self.statement.name}"

    @property
    def last(self) -> str:
        """The name of what combines them."""
        return f"@combine {self.statement.name}"

    def scheduled(self, program: Program) -> Program:
        """The program with the start before, and the combination after everything else in the iteration."""
        depth, level = len(self.around), self.around[-1]
        beside = [s.name for s in self.nest.statements if s.loops[:depth] == self.around]
        program = program.with_statement_before(self._uniform(self.first), beside)
        program = program.with_statement(self._uniform(self.last))
        starts = [Order(self.first, name, level) for name in beside]
        ends = [Order(name, self.last, level) for name in beside]
        return program.with_(orders=(*program.orders, *starts, *ends))

    def _uniform(self, name: str) -> Statement:
        """A statement that all threads of a block execute, in every iteration in which some thread has an update."""
        program, count = self.nest.program, len(self.around)
        instances = self.statement.instances.intersect_params(program.context)
        found = instances.apply(sets.graph(self.statement.prefix(count)))
        for position, loop in enumerate(self.around):
            if isinstance(program.loops[loop].tag, GpuThread):
                found = all_threads(self.nest, found, position, loop)
        found = sets.named(found.coalesce(), name)
        identity = sets.identity(found.get_space())
        return replace(
            self.statement, name=name, role=Role.BARRIER, dims=tuple(f"i{k}" for k in range(count)), instances=found,
            point=identity, loops=self.around, coords=sets.renamed(identity, None), guards=(),
        )  # fmt: skip

    def bodies(self, program: Program) -> list[Operation]:
        """What the start and the combination do."""
        name, dtype = self.partial.name, self.partial.buffer.dtype
        operator = self._operator
        start = program.statements[self.first]
        zero = Store(name, (), neutral(operator, dtype), self.statement.name)
        begin = Operation(Piece(start.name, start, start.instances, start.body), (), zero, frozenset({name}))
        end = program.statements[self.last]
        piece = Piece(end.name, end, end.instances, end.body)
        here, template = sets.identity(piece.frame), Template()
        indices = template.places([sets.pulled(form, here) for form in sets.as_function(self.element)])
        target = program.storages[self.statement.target].buffer
        reduce = TreeReduce(target, indices, Load(name, (), dtype), operator, self.statement.name)
        return [begin, Operation(piece, tuple(template.forms), reduce, frozenset({name, target}))]

    @property
    def _operator(self) -> Operator:
        source = self.nest.program.algorithm.source(self.statement.source)
        return cast(Operator, cast(Computation, source).op)

    def into_partial(self, body: Body) -> Body:
        """The update of the element as one of the partial result."""
        dtype = self.partial.buffer.dtype
        key = Load(body.buffer, body.indices, dtype).key()

        def partial(e: Expr) -> Expr | None:
            return Load(self.partial.name, (), dtype) if isinstance(e, Load) and e.key() == key else None

        return replace(body, buffer=self.partial.name, indices=(), value=rewrite(body.value, partial))


def trees(nest: KernelNest, taken: frozenset[str]) -> list[Tree]:
    """The updates of a kernel that are combined as trees."""
    return [_tree(nest, statement, taken) for statement in nest.statements if is_tree(nest.program, statement)]


def _tree(nest: KernelNest, statement: Statement, taken: frozenset[str]) -> Tree:
    program = nest.program
    found = element_of_block(nest, statement)
    if found is None:
        raise CompilerDefect(
            f"{statement.name} is combined as a tree, but the threads of a block update different elements at a time"
        )
    depth, element = found
    dtype = program.buffers[program.storages[statement.target].buffer].dtype
    buffer = Buffer(unique(f"{statement.name}_partial", taken), (), dtype, Memory.REGISTER)
    return Tree(nest, statement, Array(buffer.name, buffer), statement.loops[:depth], sets.piecewise(element))
