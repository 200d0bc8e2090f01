"""Reductions over threads of a block: within each warp by shuffles, then over the warps; or all in shared memory.

The tree is that of `program.combining`. Lowering may have made several copies of a tree, under conditions of which one
holds, or one after the other. They share one array, defined at the start of the kernel, and a barrier before each copy
keeps them apart. Trees over the same threads that follow each other share their barriers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import cgen

from tiramisu_py.algorithm.expressions import Iter, as_typed
from tiramisu_py.backends.c.expressions.scalars import operand
from tiramisu_py.backends.c.expressions.scope import Scope
from tiramisu_py.backends.cuda.kernel_scalars import builtin
from tiramisu_py.ir import KernelFunction, TreeReduce
from tiramisu_py.ir.rewriting import walk
from tiramisu_py.program.combining.combination_trees import BlockTree, first_step

if TYPE_CHECKING:
    from tiramisu_py.backends.c.statements import Lines
    from tiramisu_py.backends.cuda.kernel_statements import KernelStatements

_PART, _OTHER = "<part>", "<other>"


def common_arrays(kernel: KernelFunction) -> Mapping[str, str]:
    """The array of the partial results of each tree that a kernel has several copies of, by the tree's statement."""
    trees = [node.statement for node in walk(kernel.body) if isinstance(node, TreeReduce)]
    several = [name for name in dict.fromkeys(trees) if trees.count(name) > 1]
    return {name: f"tm_parts_{number}" for number, name in enumerate(several)}


def definitions(kernel: KernelFunction) -> Iterator[cgen.Generable]:
    """The definitions of these arrays."""
    nodes = {node.statement: node for node in walk(kernel.body) if isinstance(node, TreeReduce)}
    for statement, name in common_arrays(kernel).items():
        node = nodes[statement]
        count = BlockTree(kernel.threads, node.axes, kernel.gpu.warp).shared_parts
        if count:
            yield _shared(node.value.dtype.c_name, name, count)


class TreeCalls:
    """Emits reductions over the same threads, which all threads of the block reach: with the barriers of one."""

    def __init__(self, statements: KernelStatements, nodes: Sequence[TreeReduce], scope: Scope) -> None:
        self.statements = statements
        self.node = nodes[0]
        self.warp = statements.kernel.gpu.warp
        self.block = BlockTree(statements.kernel.threads, self.node.axes, self.warp)
        numbers = [f"_{number}" if len(nodes) > 1 else "" for number in range(len(nodes))]
        self.trees = [_Tree(statements, node, scope, number) for node, number in zip(nodes, numbers, strict=True)]

    def lines(self) -> Lines:
        """Combines the values of each tree's threads; the result is stored by the first of them, or by all."""
        if self.block.size == 1:
            return [cgen.Assign(tree.place, tree.value) for tree in self.trees if tree.value != tree.place]
        return [cgen.Block(self._by_shuffles() if self.block.by_shuffles else self._by_halves())]

    def _numbered(self, name: str, axes: Sequence[int]) -> cgen.Generable:
        """The definition of a thread's number along some axes, the first one fastest."""
        terms, stride = [], 1
        for axis in axes:
            if self.block.shape[axis] > 1:
                own = f"(int){builtin('thread', axis)}"
                terms.append(own if stride == 1 else f"{stride}*{own}")
                stride *= self.block.shape[axis]
        return cgen.Statement(f"const int {name} = {' + '.join(terms) or '0'}")

    # -- in registers

    def _by_shuffles(self) -> Lines:
        """Whole warps: within each by shuffles, then over the warps of a tree, whose lanes take the results of each."""
        size = self.block.size
        number = self._numbered("tm_number", range(3))
        lines: Lines = []
        for tree in self.trees:
            lines += [cgen.Statement(f"{tree.dtype.c_name} {tree.part} = {tree.value}")]
            lines += tree.steps(min(size, self.warp), "")
        if size > self.warp:
            return [number, *lines, *self._over_warps()]
        for tree in self.trees:
            if self.node.everyone and size == self.warp:
                lines.append(cgen.Assign(tree.part, f"tm_shuffle({tree.part}, 0)"))
            elif self.node.everyone:
                lines.append(cgen.Assign(tree.part, f"tm_shuffle({tree.part}, tm_number / {size} * {size})"))
            lines.append(cgen.Assign(tree.place, tree.part))
        return [number, *lines] if self.node.everyone and size != self.warp else lines

    def _over_warps(self) -> Lines:
        size, warps = self.block.size, self.block.size // self.warp
        lane = f"tm_number % {self.warp}"
        own = f"{lane} < {warps} ? {lane} : 0" if warps < self.warp else lane
        row = f"tm_number / {size} * {warps}"
        condition = "" if first_step(warps) * 2 == warps else f"{lane} + tm_step < {warps}"
        second: Lines = []
        for tree in self.trees:
            second += [cgen.Assign(tree.part, f"{tree.parts}[{row} + ({own})]"), *tree.steps(warps, condition)]
            if self.node.everyone:
                second.append(cgen.Assign(tree.part, f"tm_shuffle({tree.part}, 0)"))
        if not self.node.everyone:
            second = [_if(f"tm_number % {size} < {self.warp}", second)]
        stored: Lines = [cgen.Assign(f"{tree.parts}[tm_number / {self.warp}]", tree.part) for tree in self.trees]
        return [
            *self._defined(self.block.shared_parts),
            *self._free(),
            _if(f"{lane} == 0", stored),
            cgen.Statement("TM_BARRIER()"),
            *second,
            *(cgen.Assign(tree.place, tree.part) for tree in self.trees),
        ]

    # -- in shared memory

    def _by_halves(self) -> Lines:
        """Threads that are no neighbours, or no whole warps: all in shared memory, neighbours beside each other."""
        block, size = self.block, self.block.size
        others = [axis for axis in range(3) if axis not in block.axes]
        stride = 1 if block.contiguous else block.threads // size
        row = f"{size}*tm_tree + tm_place" if stride == 1 else f"{stride}*tm_place + tm_tree"
        several = size < block.threads
        times = "" if stride == 1 else f"{stride}*"
        whole = first_step(size) * 2 == size
        pair = "tm_place < tm_step" if whole else f"tm_place < tm_step && tm_place + tm_step < {size}"
        combined = [tree.combined(tree.own, tree.own, f"{tree.parts}[tm_at + {times}tm_step]") for tree in self.trees]
        step = cgen.Block([cgen.Statement("TM_BARRIER()"), _if(pair, combined)])
        end: Lines = [cgen.Assign(tree.place, tree.own) for tree in self.trees]
        if self.node.everyone:
            first = [cgen.Assign(tree.place, f"{tree.parts}[tm_at - {times}tm_place]") for tree in self.trees]
            end = [cgen.Statement("TM_BARRIER()"), *first]
        return [
            self._numbered("tm_place", block.axes),
            *([self._numbered("tm_tree", others)] if several else []),
            cgen.Statement(f"const int tm_at = {row if several else 'tm_place'}"),
            *self._defined(block.shared_parts),
            *self._free(),
            *(cgen.Assign(tree.own, tree.value) for tree in self.trees),
            _for(f"int tm_step = {first_step(size)}", "tm_step > 0", "tm_step /= 2", step),
            *(end if self.node.everyone else [_if("tm_place == 0", end)]),
        ]

    def _defined(self, count: int) -> Lines:
        return [_shared(tree.dtype.c_name, tree.parts, count) for tree in self.trees if not tree.common]

    def _free(self) -> Lines:
        """A barrier inside a loop, or after another copy: the parts of the tree before must have been read."""
        again = any(tree.common for tree in self.trees) or self.statements.loops > 0
        return [cgen.Statement("TM_BARRIER()")] if again else []


class _Tree:
    """One of the reductions: the names of its variables and of its array end in `number`."""

    def __init__(self, statements: KernelStatements, node: TreeReduce, scope: Scope, number: str) -> None:
        self.statements = statements
        self.node = node
        self.scope = scope
        self.dtype = scope.arrays[node.buffer].dtype
        self.common = statements.common_parts.get(node.statement)
        self.parts = self.common or (f"tm_parts_of{number}" if number else "tm_parts")
        self.part = f"tm_part{number}"
        self.own = f"{self.parts}[tm_at]"
        scalars = statements.scalars(scope)
        self.value = scalars.text(operand(node.value, self.dtype))
        self.place = scalars.element(node.buffer, node.indices)

    def steps(self, count: int, condition: str) -> Lines:
        """The first `count` lanes by halves; a lane that has no partner below `count` keeps its part."""
        step = self.combined(self.part, self.part, "tm_other")
        body = cgen.Block(
            [
                cgen.Statement(f"const {self.dtype.c_name} tm_other = tm_shuffle_down({self.part}, tm_step)"),
                _if(condition, [step]) if condition else step,
            ]
        )
        return [
            cgen.Pragma("unroll"),
            _for(f"int tm_step = {first_step(count)}", "tm_step > 0", "tm_step /= 2", body),
        ]

    def combined(self, target: str, left: str, right: str) -> cgen.Generable:
        """``target = left op right``."""
        named = replace(self.scope, names={**self.scope.names, _PART: left, _OTHER: right})
        value = as_typed(self.node.operator(Iter(_PART, self.dtype), Iter(_OTHER, self.dtype)), self.dtype)
        return cgen.Assign(target, self.statements.scalars(named).text(value))


def _shared(c_type: str, name: str, count: int) -> cgen.Generable:
    return cgen.Statement(f"TM_SHARED({c_type}, {name}, [{count}])")


def _for(start: str, condition: str, update: str, body: cgen.Generable) -> cgen.Generable:
    return cgen.For(cgen.Line(start), cgen.Line(condition), cgen.Line(update), body)


def _if(condition: str, body: Lines) -> cgen.Generable:
    return cgen.If(cgen.Line(condition), cgen.Block(body))
