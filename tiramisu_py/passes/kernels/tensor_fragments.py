"""Products of small matrices on tensor cores: loops of a thread tagged for them, where all threads of a warp run them.

Thread (x, y) of a warp has the rows y and y + 8 of a tile of 16 by 8, and the columns 2x and 2x + 1: two loops of its
own, h and p. The factors are loaded by other threads of the warp than those whose sums they are for::

    left[row h of y, terms 2x, 2x + 1, ...]            the own rows
    right[terms 2x, 2x + 1, ..., column y]             that of thread y // 2, and its own column y % 2

So what the loops of a thread read is loaded with other values of k, p and x, and nothing else is known of places.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tiramisu_py.algorithm import traversal
from tiramisu_py.algorithm.expressions import Binary, Expr
from tiramisu_py.algorithm.operators import sum_
from tiramisu_py.algorithm.types import float32, int64
from tiramisu_py.ir import For, GpuIndex, Let, Load, Mma, Node, Ramp, Store
from tiramisu_py.ir.arithmetic.linear import difference, number
from tiramisu_py.ir.arithmetic.simplify import simplified
from tiramisu_py.ir.properties import no_tensor_loop
from tiramisu_py.ir.rewriting import contents, variables, with_children
from tiramisu_py.ir.tensor_nests import factors_of, tensor_nest
from tiramisu_py.ir.uniform_control import IN_WARPS, Divergence
from tiramisu_py.passes.base import About, NestPass
from tiramisu_py.program.loops import TensorLoop, Unroll
from tiramisu_py.program.machine.tensor_instructions import WARP_SHAPE, tensor_instruction
from tiramisu_py.records import dataclass

_X, _Y = GpuIndex("thread", 0), GpuIndex("thread", 1)
Values = Mapping[str, Expr]


@dataclass(frozen=True)
class TensorFragments(NestPass):
    """Turn products in tensor loops of a kernel into operations of a warp, where no thread is left out.

    ::

        for h in 0 .. 2:  tensor                    -->   sums[0 .. 2, 0 .. 2] += m16n8k16(left, right)
            for p in 0 .. 2:  tensor
                for k in 0 .. 16:  tensor
                    sums[h, p] += left * right
    """

    ensures = (no_tensor_loop,)

    def apply(self, what: Node, about: About) -> Node:
        in_warps = about.threads is not None and about.threads[:2] == WARP_SHAPE
        return _Fragments(in_warps).of(what, {}, Divergence(axes=IN_WARPS))


@dataclass(frozen=True)
class _Fragments:
    """Finds products; `in_warps` says whether each warp has its threads along x and y."""

    in_warps: bool

    def of(self, node: Node, known: Values, divergence: Divergence) -> Node:
        """The statement with products of warps; `known` are the values of the definitions around it."""
        if TensorLoop not in contents(node):
            return node
        if isinstance(node, For) and isinstance(node.tag, TensorLoop):
            product = self._product(node, known) if self.in_warps and not divergence.divergent else None
            if product is not None:
                return product
            node = replace(node, tag=Unroll() if node.tag.axis < 2 else None)
        inside = divergence.inside(node)
        if isinstance(node, Let):
            known = {**known, node.variable: _inlined(node.value, known)}
        elif isinstance(node, For):
            known = {name: value for name, value in known.items() if name != node.variable}
        return with_children(node, lambda child: self.of(child, known, inside))

    def _product(self, node: For, known: Values) -> Mma | None:
        """The operation of a nest of full tensor loops; None if it has guards, or reads what one thread alone knows."""
        loops, inside = tensor_nest(node)
        if len(loops) != 3 or not isinstance(inside, Store) or inside.update is not sum_ or inside.atomic:
            return None
        factors = factors_of(inside)
        if factors is None or inside.value.dtype != float32:
            return None
        rows, columns, terms = loops
        assert isinstance(node.tag, TensorLoop)
        instruction = tensor_instruction(node.tag.instruction)
        wanted = instruction.extents(factors[0].dtype)
        extents = tuple(difference(loop.upper, loop.lower) for loop in loops)
        if not instruction.on_gpu or extents != wanted or any(loop.step != 1 for loop in loops):
            return None
        places = [tuple(_inlined(e, known) for e in load.indices) for load in factors]
        own = (columns.variable, _X), (rows.variable, _Y)
        left, right = sorted(range(2), key=lambda side: any(_depends(e, *own[0]) for e in places[side]))
        if any(_depends(e, *own[0]) for e in places[left]) or any(_depends(e, *own[1]) for e in places[right]):
            return None
        along = [loop.lower for loop in loops]
        grouped = 4 // factors[0].dtype.bytes  # neighbouring terms in one register
        firsts = range(0, wanted[2], 4 * grouped)

        def terms_from(first: int) -> Expr:
            start = along[2] + Binary("*", number(grouped), _X, int64) + first
            return start if grouped == 1 else Ramp(simplified(start), grouped)

        def at_row(h: int, first: int) -> Expr:
            values = {rows.variable: along[0] + h, terms.variable: terms_from(first)}
            return _loaded(factors[left], places[left], values)

        column = Binary("%", _Y, number(2), int64)
        across = tuple(_of_threads(e, Binary("//", _Y, number(2), int64)) for e in places[right])
        values = {columns.variable: Binary("+", along[1], column, int64)}
        return Mma(
            inside.buffer,
            tuple(
                index
                for h in range(2)
                for p in range(2)
                for index in _at(inside.indices, {rows.variable: along[0] + h, columns.variable: along[1] + p})
            ),
            tuple(at_row(h, first) for first in firsts for h in range(2)),
            tuple(_loaded(factors[right], across, {**values, terms.variable: terms_from(first)}) for first in firsts),
            instruction.name,
            inside.statement,
        )


def _inlined(e: Expr, known: Values) -> Expr:
    """An expression in the numbers of threads and blocks, with no names of them."""
    return traversal.substitute(e, known) if variables(e) & set(known) else e


def _depends(e: Expr, variable: str, thread: GpuIndex) -> bool:
    """Whether an index differs between the columns (or rows) of the sums of a warp."""
    return variable in variables(e) or any(part.key() == thread.key() for part in traversal.walk(e))


def _of_threads(e: Expr, x: Expr) -> Expr:
    """An index as the thread x has it."""
    return traversal.rewrite(e, lambda part: x if part.key() == _X.key() else None)


def _at(indices: tuple[Expr, ...], values: Values) -> tuple[Expr, ...]:
    return tuple(simplified(traversal.substitute(e, values)) for e in indices)


def _loaded(load: Load, indices: tuple[Expr, ...], values: Values) -> Load:
    return Load(load.buffer, _at(indices, values), load.dtype)
