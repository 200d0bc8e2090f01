"""The places that a statement loads and stores: accesses of values become elements of buffers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Input
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.expressions import Access, Binary, Expr, Iter
from tiramisu_py.algorithm.traversal import rewrite
from tiramisu_py.algorithm.types import int64
from tiramisu_py.errors import CompilerDefect
from tiramisu_py.ir import Load, Scalar
from tiramisu_py.lower.statements.instances import array_name
from tiramisu_py.lower.statements.templates import Forms, of_operands
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement
from tiramisu_py.program.storage import Storage


class Places:
    """Turns one statement's typed expressions into templates over `forms`, its accesses into loads."""

    def __init__(self, program: Program, statement: Statement, forms: Forms, point: Mapping[str, isl.Aff]) -> None:
        self.program = program
        self.statement = statement
        self.forms = forms
        self.point = point
        self.coords = sets.outputs(statement.coords)
        self.reader = Affine(statement.frame, point)

    def template(self, expression: Expr) -> Expr:
        """A typed expression over the point's iterators, as a template over the statement's forms."""
        return rewrite(expression, self._change)

    def _change(self, e: Expr) -> Expr | None:
        if isinstance(e, Access):
            return self.load(e)
        if isinstance(e, Iter):
            return self.forms.wanted(self.point[e.name])
        return None

    def load(self, access: Access) -> Expr:
        """The element, or the scalar argument, that holds the value of an access."""
        source = self.program.algorithm.source(access.source)
        if isinstance(source, Input) and source.scalar:
            return Scalar(source.name, source.dtype)
        storage = self.program.storage_for(self.statement, access.source)
        dtype = self.program.buffers[storage.buffer].dtype
        values = [self._index(index) for index in access.indices]
        return Load(self._name(storage), self._element(storage, values), dtype)

    def target(self) -> tuple[str, tuple[Expr, ...]]:
        """The buffer and the element that the statement stores."""
        storage = self.program.storages[self.statement.memory.target]
        values = sets.outputs(self.program.value_of(self.statement))
        return self._name(storage), self._element(storage, values)

    def _name(self, storage: Storage) -> str:
        """The name of the buffer in code; kernels use the plain name."""
        in_kernel = self.program.kernel_of(self.statement) is not None
        return storage.buffer if in_kernel else array_name(self.program.buffers[storage.buffer], None)

    def _index(self, index: Expr) -> isl.Aff | Expr:
        try:
            return self.reader.single(index)
        except NotAffine:
            if isinstance(index, Binary) and index.op in ("min", "max") and index.dtype == int64:
                left, right = (self._expression(self._index(each)) for each in (index.left, index.right))
                return replace(index, left=left, right=right)
            return self.template(index)

    def _element(self, storage: Storage, values: list[isl.Aff | Expr] | list[isl.Aff]) -> tuple[Expr, ...]:
        frame = self.program.frame(storage)
        if not self.program.in_scope(self.statement, storage):
            loops = ", ".join(self.program.loops[loop].name for loop in frame)
            raise CompilerDefect(
                f"{self.statement.name} uses {storage.name} outside the loops ({loops}), "
                "but each of their iterations has its own copy: keep it in a buffer of the whole call"
            )
        depth = len(frame)
        operands: list[isl.Aff | Expr] = [*self.coords[:depth], *values]
        affine = [operand for operand in operands if isinstance(operand, isl.Aff)]
        if depth == 0 and sets.is_identity(storage.index):
            return tuple(self._expression(operand) for operand in operands[: sets.out_size(storage.index)])
        if len(affine) == len(operands):
            at = sets.compose(sets.function(self.statement.frame, None, affine), storage.index)
            return tuple(self.forms.wanted(aff) for aff in sets.outputs(at))
        expressions = [self._expression(operand) for operand in operands]
        return tuple(of_operands(aff, expressions) for aff in sets.outputs(storage.index))

    def _expression(self, operand: isl.Aff | Expr) -> Expr:
        return operand if isinstance(operand, Expr) else self.forms.wanted(operand)
