"""Reductions over the threads of a block: within each warp by shuffles, then over the warps in shared memory.

Lowering may have made several copies of a tree, under conditions of which one holds, or one after the other. They share
one array, defined at the start of the kernel, and a barrier before each copy keeps them apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

import cgen

from tiramisu_py.algorithm.expressions import Expr, Iter, as_typed
from tiramisu_py.backends.c.expressions.scalars import operand
from tiramisu_py.backends.c.expressions.scope import Scope
from tiramisu_py.backends.cuda.kernel_scalars import builtin
from tiramisu_py.ir import KernelFunction, Load, TreeReduce
from tiramisu_py.ir.rewriting import walk

if TYPE_CHECKING:
    from tiramisu_py.backends.c.statements import Lines
    from tiramisu_py.backends.cuda.kernel_statements import KernelStatements

_PART, _OTHER = "<part>", "<other>"


def common_arrays(kernel: KernelFunction) -> Mapping[str, str]:
    """The array of the partial results of each tree that a kernel has several copies of, by the tree's statement."""
    trees = [node.statement for node in walk(kernel.body) if isinstance(node, TreeReduce)]
    several = [name for name in dict.fromkeys(trees) if trees.count(name) > 1]
    return {name: f"tm_parts_{number}" for number, name in enumerate(several)}


def definitions(kernel: KernelFunction, types: Mapping[str, str]) -> Iterator[cgen.Generable]:
    """The definitions of these arrays; `types` are the C types of the kernel's arrays."""
    threads, warp = prod(kernel.threads), kernel.gpu.warp
    count = 0 if threads in (1, warp) else threads // warp if threads % warp == 0 else threads
    targets = {node.statement: node.buffer for node in walk(kernel.body) if isinstance(node, TreeReduce)}
    for statement, name in common_arrays(kernel).items() if count else ():
        yield _shared(types[targets[statement]], name, count)


class TreeCall:
    """Emits one reduction, which all threads of the block reach."""

    def __init__(self, statements: KernelStatements, node: TreeReduce, scope: Scope) -> None:
        self.statements = statements
        self.node = node
        self.scope = scope
        self.array = scope.arrays[node.buffer]
        self.dtype = self.array.dtype
        self.shape = statements.kernel.threads
        self.warp = statements.kernel.gpu.warp
        self.threads = self.shape[0] * self.shape[1] * self.shape[2]
        self.common = statements.common_parts.get(node.statement)
        self.parts = self.common or "tm_parts"

    def lines(self) -> Lines:
        """Combines the values of the block's threads; then one thread combines the result into the element."""
        value = self.statements.scalars(self.scope).text(operand(self.node.value, self.dtype))
        if self.threads == 1:
            return [cgen.Block([self._part(value), *self._update()])]
        body = self._by_warps(value) if self.threads % self.warp == 0 else self._by_halves(value)
        return [cgen.Block([cgen.Statement(f"const int tm_number = {self._number()}"), *body])]

    def _number(self) -> str:
        x, y, z = self.shape
        text = f"(int){builtin('thread', 0)}"
        if y > 1 or z > 1:
            text += f" + {x}*(int){builtin('thread', 1)}"
        return text + (f" + {x * y}*(int){builtin('thread', 2)}" if z > 1 else "")

    def _part(self, value: str) -> cgen.Generable:
        return cgen.Statement(f"{self.dtype.c_name} tm_part = {value}")

    def _by_warps(self, value: str) -> Lines:
        kind, warps = self.dtype.c_name, self.threads // self.warp
        shuffle = cgen.Block(
            [
                cgen.Statement(f"const {kind} tm_other = tm_shuffle_down(tm_part, tm_step)"),
                self._combined("tm_part", "tm_part", "tm_other"),
            ]
        )
        steps = _for(f"int tm_step = {self.warp // 2}", "tm_step > 0", "tm_step /= 2", shuffle)
        within: Lines = [self._part(value), cgen.Pragma("unroll"), steps]
        if warps == 1:
            return [*within, _if("tm_number == 0", self._update())]
        over = _for(
            "int tm_warp = 1",
            f"tm_warp < {warps}",
            "tm_warp++",
            self._combined("tm_part", "tm_part", f"{self.parts}[tm_warp]"),
        )
        return [
            *within,
            *self._defined(warps),
            *self._free(),
            _if(f"tm_number % {self.warp} == 0", [cgen.Assign(f"{self.parts}[tm_number / {self.warp}]", "tm_part")]),
            cgen.Statement("TM_BARRIER()"),
            _if("tm_number == 0", [over, *self._update()]),
        ]

    def _by_halves(self, value: str) -> Lines:
        """The reduction for a block that does not consist of whole warps: all in shared memory."""
        half = 1 << (self.threads - 1).bit_length() - 1
        pair = f"tm_number < tm_step && tm_number + tm_step < {self.threads}"
        own = f"{self.parts}[tm_number]"
        combined = self._combined(own, own, f"{self.parts}[tm_number + tm_step]")
        step = cgen.Block([cgen.Statement("TM_BARRIER()"), _if(pair, [combined])])
        return [
            *self._defined(self.threads),
            *self._free(),
            cgen.Assign(own, value),
            _for(f"int tm_step = {half}", "tm_step > 0", "tm_step /= 2", step),
            _if("tm_number == 0", [self._part(f"{self.parts}[0]"), *self._update()]),
        ]

    def _defined(self, count: int) -> Lines:
        return [] if self.common else [_shared(self.dtype.c_name, self.parts, count)]

    def _free(self) -> Lines:
        """A barrier inside a loop, or after another copy: the parts of the tree before must have been read."""
        return [cgen.Statement("TM_BARRIER()")] if self.common or self.statements.loops > 0 else []

    def _combined(self, target: str, left: str, right: str) -> cgen.Generable:
        named = replace(self.scope, names={**self.scope.names, _PART: left, _OTHER: right})
        value = as_typed(self.node.operator(self._iter(_PART), self._iter(_OTHER)), self.dtype)
        return cgen.Assign(target, self.statements.scalars(named).text(value))

    def _iter(self, name: str) -> Expr:
        return Iter(name, self.dtype)

    def _update(self) -> Lines:
        """The statement by which one thread combines the block's value into the element."""
        named = replace(self.scope, names={**self.scope.names, _PART: "tm_part"})
        target = Load(self.node.buffer, self.node.indices, self.dtype)
        value = as_typed(self.node.operator(target, self._iter(_PART)), self.dtype)
        place = self.statements.scalars(self.scope).element(self.node.buffer, self.node.indices)
        return self.statements.atomic(place, target, value, named)


def _shared(c_type: str, name: str, count: int) -> cgen.Generable:
    return cgen.Statement(f"TM_SHARED({c_type}, {name}, [{count}])")


def _for(start: str, condition: str, update: str, body: cgen.Generable) -> cgen.Generable:
    return cgen.For(cgen.Line(start), cgen.Line(condition), cgen.Line(update), body)


def _if(condition: str, body: Lines) -> cgen.Generable:
    return cgen.If(cgen.Line(condition), cgen.Block(body))
