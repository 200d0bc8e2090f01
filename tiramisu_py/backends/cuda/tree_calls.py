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

from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.algorithm.types import DType, TupleType, component_types
from tiramisu_py.backends.c.expressions.scalars import operand
from tiramisu_py.backends.c.expressions.scope import Scope
from tiramisu_py.backends.cuda.kernel_scalars import builtin
from tiramisu_py.ir import KernelFunction, TreeReduce
from tiramisu_py.ir.arithmetic.components import combined
from tiramisu_py.ir.rewriting import walk
from tiramisu_py.program.combining.combination_trees import BlockTree, first_step
from tiramisu_py.records import dataclass

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
        for own, dtype in _components(node) if count else ():
            yield _shared(dtype.c_name, name + own, count)


class TreeCalls:
    """Emits reductions over the same threads, which all threads of the block reach: with the barriers of one."""

    def __init__(self, statements: KernelStatements, nodes: Sequence[TreeReduce], scope: Scope) -> None:
        self.statements = statements
        self.node = nodes[0]
        self.warp = statements.kernel.gpu.warp
        self.block = BlockTree(statements.kernel.threads, self.node.axes, self.warp)
        numbers = [f"_{number}" if len(nodes) > 1 else "" for number in range(len(nodes))]
        self.trees = [_Tree(statements, node, scope, number) for node, number in zip(nodes, numbers, strict=True)]

    @property
    def parts(self) -> list[_Part]:
        """The components of all trees."""
        return [one for tree in self.trees for one in tree.parts]

    def lines(self) -> Lines:
        """Combines the values of each tree's threads; the result is stored by the first of them, or by all."""
        if self.block.size == 1:
            return [line for tree in self.trees for line in tree.kept()]
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
            lines += [cgen.Statement(f"{one.c_type} {one.part} = {one.value}") for one in tree.parts]
            lines += tree.steps(min(size, self.warp), "")
        if size > self.warp:
            return [number, *lines, *self._over_warps()]
        first = "0" if size == self.warp else f"tm_number / {size} * {size}"
        for one in self.parts:
            if self.node.everyone:
                lines.append(cgen.Assign(one.part, f"tm_shuffle({one.part}, {first})"))
            lines.append(cgen.Assign(one.place, one.part))
        return [number, *lines] if self.node.everyone and size != self.warp else lines

    def _over_warps(self) -> Lines:
        size, warps = self.block.size, self.block.size // self.warp
        lane = f"tm_number % {self.warp}"
        own = f"{lane} < {warps} ? {lane} : 0" if warps < self.warp else lane
        row = f"tm_number / {size} * {warps}"
        condition = "" if first_step(warps) * 2 == warps else f"{lane} + tm_step < {warps}"
        second: Lines = []
        for tree in self.trees:
            second += [cgen.Assign(one.part, f"{one.array}[{row} + ({own})]") for one in tree.parts]
            second += tree.steps(warps, condition)
            if self.node.everyone:
                second += [cgen.Assign(one.part, f"tm_shuffle({one.part}, 0)") for one in tree.parts]
        if not self.node.everyone:
            second = [_if(f"tm_number % {size} < {self.warp}", second)]
        stored: Lines = [cgen.Assign(f"{one.array}[tm_number / {self.warp}]", one.part) for one in self.parts]
        return [
            *self._defined(self.block.shared_parts),
            *self._free(),
            _if(f"{lane} == 0", stored),
            cgen.Statement("TM_BARRIER()"),
            *second,
            *(cgen.Assign(one.place, one.part) for one in self.parts),
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
        combined = [line for tree in self.trees for line in tree.combined_in_array(f"tm_at + {times}tm_step")]
        step = cgen.Block([cgen.Statement("TM_BARRIER()"), _if(pair, combined)])
        end: Lines = [cgen.Assign(one.place, one.own) for one in self.parts]
        if self.node.everyone:
            first = [cgen.Assign(one.place, f"{one.array}[tm_at - {times}tm_place]") for one in self.parts]
            end = [cgen.Statement("TM_BARRIER()"), *first]
        return [
            self._numbered("tm_place", block.axes),
            *([self._numbered("tm_tree", others)] if several else []),
            cgen.Statement(f"const int tm_at = {row if several else 'tm_place'}"),
            *self._defined(block.shared_parts),
            *self._free(),
            *(cgen.Assign(one.own, one.value) for one in self.parts),
            _for(f"int tm_step = {first_step(size)}", "tm_step > 0", "tm_step /= 2", step),
            *(end if self.node.everyone else [_if("tm_place == 0", end)]),
        ]

    def _defined(self, count: int) -> Lines:
        return [_shared(one.c_type, one.array, count) for one in self.parts if not one.common]

    def _free(self) -> Lines:
        """A barrier inside a loop, or after another copy: the parts of the tree before must have been read."""
        again = any(one.common for one in self.parts) or self.statements.loops > 0
        return [cgen.Statement("TM_BARRIER()")] if again else []


class _Tree:
    """One of the reductions: the names of its variables and of its arrays have its `number`."""

    def __init__(self, statements: KernelStatements, node: TreeReduce, scope: Scope, number: str) -> None:
        self.statements = statements
        self.node = node
        self.scope = scope
        common = statements.common_parts.get(node.statement)
        array = common or (f"tm_parts_of{number}" if number else "tm_parts")
        scalars = statements.scalars(scope)
        self.parts = [
            _Part(
                dtype, number + own, array + own, common is not None, scalars.text(operand(value, dtype)),
                scalars.element(buffer, node.indices),
            )
            for (own, dtype), buffer, value in zip(_components(node), node.buffers, node.values, strict=True)
        ]  # fmt: skip

    def kept(self) -> Lines:
        """The result of a tree of one thread: its value."""
        return [cgen.Assign(one.place, one.value) for one in self.parts if one.value != one.place]

    def steps(self, count: int, condition: str) -> Lines:
        """The first `count` lanes by halves; a lane that has no partner below `count` keeps its part."""
        others = [f"tm_other{own}" for own, _ in _components(self.node)]
        step = self._combined([one.part for one in self.parts], others)
        pairs = zip(self.parts, others, strict=True)
        body = cgen.Block(
            [
                *(
                    cgen.Statement(f"const {one.c_type} {other} = tm_shuffle_down({one.part}, tm_step)")
                    for one, other in pairs
                ),
                *([_if(condition, step)] if condition else step),
            ]
        )
        return [
            cgen.Pragma("unroll"),
            _for(f"int tm_step = {first_step(count)}", "tm_step > 0", "tm_step /= 2", body),
        ]

    def combined_in_array(self, at: str) -> Lines:
        """The thread's part in shared memory, combined with the one at an index."""
        return self._combined([one.own for one in self.parts], [f"{one.array}[{at}]" for one in self.parts])

    def _combined(self, left: Sequence[str], right: Sequence[str]) -> Lines:
        """``left = left op right``, each by its components: all are computed before the first one is assigned."""
        types = component_types(self.node.dtype)
        mine, others = ([Iter(f"{mark}{k}", own) for k, own in enumerate(types)] for mark in (_PART, _OTHER))
        pairs = zip([*mine, *others], [*left, *right], strict=True)
        named = replace(self.scope, names={**self.scope.names, **{e.name: text for e, text in pairs}})
        scalars = self.statements.scalars(named)
        values = [scalars.text(e) for e in combined(self.node.operator, mine, others, self.node.dtype)]
        if len(values) == 1:
            return [cgen.Assign(left[0], values[0])]
        new = [f"tm_new{one.number}" for one in self.parts]
        made = zip(self.parts, new, values, strict=True)
        return [
            *(cgen.Statement(f"const {one.c_type} {name} = {value}") for one, name, value in made),
            *(cgen.Assign(target, name) for target, name in zip(left, new, strict=True)),
        ]


@dataclass(frozen=True)
class _Part:
    """One component of a reduction: the ends of the names of its variables, its array, and what it is combined from.

    `common` arrays are those of several copies of a tree. The result goes to `place`.
    """

    dtype: DType
    number: str
    array: str
    common: bool
    value: str
    place: str

    @property
    def c_type(self) -> str:
        return self.dtype.c_name

    @property
    def part(self) -> str:
        """The variable of a thread's partial result."""
        return f"tm_part{self.number}"

    @property
    def own(self) -> str:
        """The thread's element of the array."""
        return f"{self.array}[tm_at]"


def _components(node: TreeReduce) -> list[tuple[str, DType]]:
    """The types of the components of a reduction, and what the names of each end in."""
    if not isinstance(node.dtype, TupleType):
        return [("", node.dtype)]
    return [(f"_{name}", dtype) for name, dtype in node.dtype.fields]


def _shared(c_type: str, name: str, count: int) -> cgen.Generable:
    return cgen.Statement(f"TM_SHARED({c_type}, {name}, [{count}])")


def _for(start: str, condition: str, update: str, body: cgen.Generable) -> cgen.Generable:
    return cgen.For(cgen.Line(start), cgen.Line(condition), cgen.Line(update), body)


def _if(condition: str, body: Lines) -> cgen.Generable:
    return cgen.If(cgen.Line(condition), cgen.Block(body))
