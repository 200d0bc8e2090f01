"""Reductions over threads and blocks: partial results that a block combines as a tree.

The completion has made the statements of a tree (`derive.barriers.tree_partials`), and the proof has checked them.
Here they become code: every thread of the block executes the start, a store. The combination, with an instance for each
thread of a tree, becomes one statement that all threads of the block reach, whether their tree has an element or not.
The merge is an update by one term, atomic where several threads or blocks merge into one element. The partial result,
one for each iteration around, becomes one variable of the thread, since no iteration uses it after its merge.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Computation
from tiramisu_py.algorithm.expressions import as_typed
from tiramisu_py.algorithm.operators import Operator
from tiramisu_py.errors import CompilerDefect
from tiramisu_py.ir import Load, Store, TreeReduce
from tiramisu_py.lower.statements.body import Body, body_of
from tiramisu_py.lower.statements.index_set_splitting import DomainPiece, pieces_of
from tiramisu_py.lower.statements.instances import Instance
from tiramisu_py.lower.statements.operation import LoweredOperation
from tiramisu_py.program.kernels import KernelNest, all_threads, block_tree, is_tree, meeting_threads
from tiramisu_py.program.loops import GpuThread, LoopId
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.program.storage import Memory
from tiramisu_py.records import dataclass


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
        assert self.combined.link.combination is not None
        return self.combined.link.combination.of

    @property
    def partial(self) -> Instance:
        """The partial result of a thread."""
        return Instance(
            self.start.memory.target, replace(self.nest.program.buffers[self.start.memory.target], scope=())
        )

    @property
    def around(self) -> tuple[LoopId, ...]:
        """The loops around the tree: in each iteration, its threads have partial results for one element."""
        return self.nest.program.buffers[self.start.memory.target].scope

    def scheduled(self, program: Program) -> Program:
        """The program in which all threads of the block execute the start and the combination."""
        return program.with_statement(self._uniform(self.start), self._uniform(self.combined), self._end(program))

    def _end(self, program: Program) -> Statement:
        """The merge as an update by one term, so that the code of an update is emitted for it."""
        merge = self.merge
        over = cast(Computation, program.algorithm.source(merge.source)).over
        point = [*sets.outputs(merge.point), *(sets.constant(merge.frame, 0) for _ in over)]
        return replace(merge, role=Role.UPDATE, point=sets.function(merge.frame, merge.source, point))

    def _uniform(self, statement: Statement) -> Statement:
        """A statement that all threads of a block execute, without loops over threads and values."""
        count = len(self.around)
        instances = statement.instances.intersect_params(self.nest.program.context)
        found = sets.project_prefix(instances, count).coalesce()
        for position, loop in enumerate(self.around):
            if isinstance(self.nest.program.loops[loop].tag, GpuThread):
                found = all_threads(self.nest, found, position, loop)
        found = sets.named(found.coalesce(), statement.name)
        identity = sets.identity(found.get_space())
        return replace(
            statement, dims=statement.dims[:count], instances=found, point=identity, loops=self.around,
            coords=sets.renamed(identity, None),
        )  # fmt: skip

    def bodies(self, program: Program) -> list[Body | LoweredOperation]:
        """The code of the start, of the combination and of the merge."""
        name, dtype = self.partial.name, self.partial.buffer.dtype
        start, end = program.statements[self.start.name], program.statements[self.combined.name]
        store = Store(name, (), as_typed(self.start.body, dtype), self.of)
        begin = LoweredOperation(
            DomainPiece(start.name, start, start.instances, start.body), (), store, frozenset({name})
        )
        piece = DomainPiece(end.name, end, end.instances, end.body)
        operator = cast(Operator, cast(Computation, self.nest.program.algorithm.source(self.merge.source)).op)
        target = self.nest.program.storages[self.merge.memory.target].buffer
        everyone = self.nest.program.buffers[target].memory is Memory.REGISTER
        axes = block_tree(self.nest, self.combined).axes
        reduce = TreeReduce((name,), (), (Load(name, (), dtype),), dtype, operator, self.of, axes, everyone)
        merge, atomic = program.statements[self.merge.name], meeting_threads(self.nest, self.merge)
        merged = [body_of(program, piece) for piece in pieces_of(program, merge, split=False)]
        return [
            begin,
            LoweredOperation(piece, (), reduce, frozenset({name})),
            *(replace(body.as_in_kernel(atomic, False), comment=self._comment()) for body in merged),
        ]

    def _comment(self) -> str:
        return f"the result of the tree goes into {self.merge.source}"


def trees(nest: KernelNest) -> list[Tree]:
    """The trees of a kernel, from the statements that the completion has made."""
    partials = {s.memory.target for s in nest.statements if s.role is Role.COMBINE}
    for statement in nest.statements:
        if is_tree(nest.program, statement) and statement.memory.target not in partials:
            name = statement.name
            raise CompilerDefect(f"{name} is combined as a tree, but threads of a block update different elements")
    by_role: dict[tuple[str, Role], Statement] = {}
    for statement in nest.statements:
        if statement.link.combination is not None:
            by_role[statement.link.combination.of, statement.role] = statement
    updates = [of for of, role in by_role if role is Role.COMBINE]
    return [Tree(nest, *(by_role[of, role] for role in (Role.INIT, Role.COMBINE, Role.MERGE))) for of in updates]
