"""Stages as calls of C functions: one call in each iteration of the loops of the stage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.conversions import typed
from tiramisu_py.algorithm.declarations import Computation
from tiramisu_py.algorithm.domains.affine import Affine
from tiramisu_py.algorithm.expressions import Access, Expr, Iter
from tiramisu_py.algorithm.traversal import rewrite
from tiramisu_py.algorithm.types import DType
from tiramisu_py.algorithm.words.stages import StageCall
from tiramisu_py.dependence.footprints import steps_of
from tiramisu_py.errors import CompilerDefect
from tiramisu_py.ir import ArrayCall, ArraySection, Block, Comment, Scalar
from tiramisu_py.lower.operations.host_part import pieces_of_operation
from tiramisu_py.lower.statements.body import algorithm_line
from tiramisu_py.lower.statements.index_set_splitting import DomainPiece
from tiramisu_py.lower.statements.instances import array_name
from tiramisu_py.lower.statements.operation import LoweredOperation, Template
from tiramisu_py.lower.statements.templates import of_operands
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement
from tiramisu_py.program.storage import Storage


def stage_calls(program: Program, statement: Statement, operation: Statement) -> list[LoweredOperation]:
    """A stage as calls; `operation` is the statement that represents it in the host's part."""
    return [_Call(program, statement, piece).lowered() for piece in pieces_of_operation(operation)]


class _Call:
    """The call of one piece, as a template over functions of its instances: the iterations of the stage's loops."""

    def __init__(self, program: Program, statement: Statement, piece: DomainPiece) -> None:
        source = program.algorithm.source(statement.source)
        assert isinstance(source, Computation) and source.stage is not None and isinstance(source.expr, StageCall)
        self.program, self.statement, self.piece = program, statement, piece
        self.computation, self.sets, self.call = source, source.stage, source.expr
        self.template = Template()
        self.coordinates = self.template.places([aff.to_pw_aff() for aff in sets.variables(piece.frame)])
        instances = statement.instances.intersect_params(program.context)
        calls = sets.graph(sets.prefix(statement.point, self.sets.each), instances)
        self.calls = sets.graph(statement.coords, instances).reverse().apply_range(calls).coalesce()

    def lowered(self) -> LoweredOperation:
        stage, taken = self.call.stage, iter([*self._read()])
        written = self._written()
        found = [written if of.is_stored else next(taken) for _, of in stage.array_parameters]
        node = ArrayCall(
            stage,
            tuple(self._scalar(e, of) for e, of in self.call.scalars),
            tuple(name for name, _ in found),
            tuple(section for _, section in found),
            self.statement.name,
        )
        line = Comment(algorithm_line(self.program, self.statement, self.call))
        whole = Block((line, node))
        return LoweredOperation(self.piece, tuple(self.template.forms), whole, frozenset(node.arrays), (stage,))

    def _read(self) -> Iterator[tuple[str, ArraySection]]:
        """The arrays that it reads and does not update, with their sections."""
        for (_, of, access), part in zip(self.call.arrays, self.sets.parts, strict=True):
            if not of.is_stored:
                storage = self.program.storage_for(self.statement, access.source)
                yield self._section(storage, access, part.varying, self._is_full(part.points, part.iterators))

    def _written(self) -> tuple[str, ArraySection]:
        storage, own = self.program.storages[self.statement.memory.target], self.computation.iterators
        access = Access(self.computation.name, tuple(map(Iter, own)), self.computation.dtype, None)
        varying = tuple("" if k < self.sets.each else name for k, name in enumerate(own))
        return self._section(storage, access, varying, True)

    def _is_full(self, points: isl.Set, iterators: Sequence[str]) -> bool:
        """Whether a call reads all elements of the box around those that it reads."""
        each = self.sets.each
        calls = sets.graph(sets.prefix(sets.identity(points.get_space()), each), points).reverse()
        elements = sets.out_parts(calls, each, len(iterators) - each)
        lows, highs = sets.component_bounds(elements)
        box = sets.box(lows, highs, elements.get_space().domain()).intersect_domain(elements.domain())
        return bool(box.is_subset(elements))

    # -- arguments

    def _scalar(self, e: Expr, dtype: DType) -> Expr:
        """A scalar argument, over the iterators of the call."""
        values = dict(zip(self.computation.iterators[: self.sets.each], self._outer(), strict=True))

        def change(part: Expr) -> Expr | None:
            if isinstance(part, Access):
                return Scalar(part.source, part.dtype)
            return values[part.name] if isinstance(part, Iter) else None

        return rewrite(typed(e, dtype), change)

    def _outer(self) -> tuple[Expr, ...]:
        if not self.sets.each:
            return ()
        lows, _ = sets.component_bounds(self.calls)
        return self._places(lows)

    def _section(
        self, storage: Storage, access: Access, varying: Sequence[str], full: bool
    ) -> tuple[str, ArraySection]:
        """The part of an array that the function gets."""
        first, extents, steps = list[Expr](), list[Expr](), list[tuple[int, ...]]()
        for position, (index, iterator) in enumerate(zip(access.indices, varying, strict=True)):
            low, high = self._bounds(index, iterator)
            first += self._places([low])
            if iterator:
                extents += self._places([_extent(low, high).gist(self.calls.domain())])
                step = steps_of(self.program, storage, position)
                if step is None:
                    raise CompilerDefect(f"{access} is passed to {self.call.function}, but has no strides")
                steps.append(step)
        coordinates = self.coordinates[: len(self.program.frame(storage))]
        element = tuple(of_operands(aff, [*coordinates, *first]) for aff in sets.outputs(storage.index))
        name = array_name(self.program.buffers[storage.buffer], None)
        return name, ArraySection(element, tuple(extents), tuple(steps), full)

    def _bounds(self, index: Expr, iterator: str) -> tuple[isl.PwAff, isl.PwAff]:
        """The least and the largest value of an index in each call, as functions of the piece's instances."""
        own = self.computation.iterators[: self.sets.each]
        if iterator:
            points, names = self.sets.ranges[iterator], (*own, iterator)
        else:
            points, names = sets.project_prefix(self.computation.domain, len(own)), own
        frame = points.get_space()
        form = Affine(frame, dict(zip(names, sets.variables(frame), strict=True))).single(index)
        values = sets.graph(sets.function(frame, None, [form]), points)
        call_of = sets.graph(sets.prefix(sets.identity(frame), len(own)), points)
        (low,), (high,) = sets.component_bounds(self.calls.apply_range(call_of.reverse()).apply_range(values))
        return low, high

    def _places(self, forms: Sequence[isl.PwAff]) -> tuple[Expr, ...]:
        here = sets.identity(self.piece.frame)
        return self.template.places([sets.pulled(_everywhere(form), here) for form in forms])


def _extent(low: isl.PwAff, high: isl.PwAff) -> isl.PwAff:
    """The number of indices; 0 where there are none."""
    form = _everywhere(sets.extent_between(low, high))
    nothing = sets.constant(form.get_domain_space(), 0).to_pw_aff()
    return form.max(nothing)


def _everywhere(form: isl.PwAff) -> isl.PwAff:
    """A form extended to where it is not defined: by its formula if it has one, else by 0."""
    whole = form.coalesce()
    if whole.n_piece() == 1:
        return whole.get_pieces()[0][1].to_pw_aff()
    return sets.zero_elsewhere(whole)
