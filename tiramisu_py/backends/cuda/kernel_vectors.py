"""Vectors in kernels: up to 16 aligned bytes are loaded or stored at once; arithmetic is a loop over lanes."""

from __future__ import annotations

from dataclasses import replace

import cgen

from tiramisu_py.algorithm.expressions import Binary, Expr, Iter, Select, constant
from tiramisu_py.algorithm.traversal import rewrite
from tiramisu_py.algorithm.types import DType, int64, strong
from tiramisu_py.backends.c.expressions.scalars import operand
from tiramisu_py.backends.c.expressions.scope import Scope
from tiramisu_py.backends.cuda.kernel_scalars import KernelScalars
from tiramisu_py.backends.cuda.kernel_scope import KernelScope
from tiramisu_py.errors import CompilerDefect
from tiramisu_py.ir import Lane, Load, Ramp, Store
from tiramisu_py.ir.arithmetic.linear import along_lanes
from tiramisu_py.ir.expressions import filled_load

Lines = list[cgen.Generable]
#: The number of the lane inside a loop over lanes; no user's name looks like this.
_LANE = "<lane>"


class LaneLoops:
    """Emits a kernel's statements with several lanes."""

    def store(self, node: Store, lanes: int, scope: Scope) -> Lines:
        """A store to `lanes` elements: at once if they are aligned and consecutive, else one by one."""
        array = scope.arrays[node.buffer]
        value = operand(node.value, array.dtype)
        place = self.place(node.buffer, node.indices, lanes, scope)
        whole = self._whole(value, lanes, scope)
        if place is not None and whole is not None:
            return [cgen.Statement(f"tm_store(&{place}, {whole})")]
        inner = scope.inner()
        hoisted, each = self._hoisted(value, lanes, inner)
        if place is None:
            target = Load(node.buffer, self._element(node.indices, array.lanes, len(array.extents)), array.dtype)
            text = self.each(target, inner)
            return [cgen.Block([*hoisted, *lane_loop(lanes, f"{text} = {self.each(each, inner)}")])]
        kind = vector(array.dtype, lanes, scope)
        return [
            cgen.Block(
                [
                    *hoisted,
                    cgen.Statement(f"{kind} tm_value"),
                    *lane_loop(lanes, f"tm_value[tm_lane] = {self.each(each, inner)}"),
                    cgen.Statement(f"tm_store(&{place}, tm_value)"),
                ]
            )
        ]

    def defined(self, name: str, value: Expr, lanes: int, scope: Scope) -> Lines:
        """A variable of several lanes."""
        kind = vector(value.dtype, lanes, scope)
        whole = self._whole(value, lanes, scope)
        if whole is not None:
            return [cgen.Statement(f"{kind} {name} = {whole}")]
        return [cgen.Statement(f"{kind} {name}"), *self.assigned(name, value, lanes, scope)]

    def assigned(self, name: str, value: Expr, lanes: int, scope: Scope) -> Lines:
        """An assignment of all lanes of a variable."""
        inner = scope.inner()
        hoisted, each = self._hoisted(value, lanes, inner)
        lines = [*hoisted, *lane_loop(lanes, f"{name}[tm_lane] = {self.each(each, inner)}")]
        return [cgen.Block(lines)] if hoisted else lines

    # -- whole vectors

    def place(self, buffer: str, indices: tuple[Expr, ...], lanes: int, scope: Scope) -> str | None:
        """The first of `lanes` aligned, consecutive elements in memory that threads share, else None."""
        assert isinstance(scope, KernelScope)
        array = scope.arrays[buffer]
        fits = lanes * array.dtype.bytes <= scope.widest and lanes & (lanes - 1) == 0
        if not fits or array.lanes > 1 or (array.nested and not array.is_shared):
            return None
        lines = [along_lanes(index) for index in indices]
        known = [line for line in lines if line is not None]
        if len(known) < len(lines) or constant(array.distance(tuple(step for _, step in known))) != 1:
            return None
        first = tuple(base for base, _ in known)
        if scope.divisor(array.flat(first)) % lanes != 0:
            return None
        return KernelScalars(scope).element(buffer, first)

    def _whole(self, e: Expr, lanes: int, scope: Scope) -> str | None:
        """A value that already is a vector: a vector variable or element, or a load of aligned neighbours."""
        if isinstance(e, Iter) and scope.lanes.of(e) == lanes:
            return scope.names.get(e.name, e.name)
        if isinstance(e, Select) and scope.lanes.of(e.condition) == 1 and (load := filled_load(e)) is not None:
            whole = self._whole(load, lanes, scope)
            condition = KernelScalars(scope).text(e.condition)
            return None if whole is None else f"({condition}) ? {whole} : {vector(e.dtype, lanes, scope)}{{}}"
        if not isinstance(e, Load) or scope.lanes.of(e) != lanes:
            return None
        if all(scope.lanes.of(index) == 1 for index in e.indices):
            return KernelScalars(scope).element(e.buffer, e.indices)
        place = self.place(e.buffer, e.indices, lanes, scope)
        apart = "_apart" if scope.arrays[e.buffer].apart else ""
        return None if place is None else f"tm_load{apart}<{lanes}>(&{place})"

    def _hoisted(self, value: Expr, lanes: int, scope: Scope) -> tuple[Lines, Expr]:
        """The loads of whole vectors before the loop over lanes, and the value rewritten to read them."""
        lines: Lines = []
        seen: dict[object, Expr] = {}

        def load(e: Expr) -> Expr | None:
            if isinstance(e, Select):
                return e  # which reads only what its condition allows
            if not isinstance(e, Load) or all(scope.lanes.of(index) == 1 for index in e.indices):
                return None
            whole = self._whole(e, lanes, scope)
            if whole is None:
                return None
            if e.key() not in seen:
                name = f"tm_v{len(seen)}"
                lines.append(cgen.Statement(f"const {vector(e.dtype, lanes, scope)} {name} = {whole}"))
                scope.declare(name, lanes)
                seen[e.key()] = Iter(name, e.dtype)
            return seen[e.key()]

        changed = rewrite(value, load)
        return lines, changed

    # -- one lane

    def each(self, e: Expr, scope: Scope) -> str:
        """The value in the lane `tm_lane`."""
        changed, named = self._in_lane(e, scope)
        return KernelScalars(named).text(changed)

    def each_place(self, load: Load, scope: Scope) -> str:
        """The element of which the value is loaded in the lane `tm_lane`."""
        changed, named = self._in_lane(load, scope)
        assert isinstance(changed, Load)
        return KernelScalars(named).element(changed.buffer, changed.indices)

    def _in_lane(self, e: Expr, scope: Scope) -> tuple[Expr, Scope]:
        """A value in one lane, and the scope with the number of that."""
        lane = Iter(_LANE, int64)

        def in_lane(part: Expr) -> Expr | None:
            if isinstance(part, Ramp):
                return lane if constant(part.base) == 0 else Binary("+", part.base, lane, int64)
            if isinstance(part, Iter) and scope.lanes.of(part) > 1:
                return Lane(part, lane, part.dtype)
            if isinstance(part, Load) and scope.lanes.of_element(part.buffer, len(part.indices)) > 1:
                return Load(part.buffer, (*part.indices, lane), part.dtype)
            return None

        return rewrite(e, in_lane), replace(scope, names={**scope.names, _LANE: "tm_lane"})

    def _element(self, indices: tuple[Expr, ...], lanes: int, rank: int) -> tuple[Expr, ...]:
        return (*indices, Iter(_LANE, int64)) if lanes > 1 and len(indices) == rank else indices


def vector(dtype: DType, lanes: int, scope: Scope) -> str:
    """The name of a vector type."""
    assert isinstance(scope, KernelScope)
    if lanes * dtype.bytes > scope.widest or lanes & (lanes - 1) != 0:
        fault = f"a GPU has no vectors of {lanes} {dtype}"
        raise CompilerDefect(f"{fault}: use 2, 4 or 8 lanes of at most {scope.widest} bytes")
    return f"tm_vec<{strong(dtype).c_name}, {lanes}>"


def lane_loop(lanes: int, statement: str) -> Lines:
    """A loop over lanes, unrolled."""
    header = (cgen.Line("int tm_lane = 0"), cgen.Line(f"tm_lane < {lanes}"), cgen.Line("tm_lane++"))
    return [cgen.Pragma("unroll"), cgen.For(*header, cgen.Block([cgen.Statement(statement)]))]
