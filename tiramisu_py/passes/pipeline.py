"""From scheduled loops to the loops that are emitted: the passes over the loop IR, in order."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tiramisu_py.algorithm.stacks import deep
from tiramisu_py.ir import Allocate, Block, Events, KernelFunction, LoopFunction, Node, Requests
from tiramisu_py.ir.arithmetic.common_values import named
from tiramisu_py.ir.arithmetic.facts import Facts, decide, facts_of
from tiramisu_py.ir.arithmetic.remainders import with_remainders
from tiramisu_py.ir.arithmetic.simplify import simplify, without_stores
from tiramisu_py.ir.rewriting import Names, block, constant, names, read_buffers
from tiramisu_py.ir.uniform_control import check_uniform
from tiramisu_py.passes.kernels.full_blocks import full_blocks
from tiramisu_py.passes.kernels.launch_constants import with_literals
from tiramisu_py.passes.loops.count_steps import counted
from tiramisu_py.passes.loops.full_tiles import full_tiles, over_registers
from tiramisu_py.passes.loops.merge_guards import merged
from tiramisu_py.passes.loops.peel import cut_prologues
from tiramisu_py.passes.loops.unroll import kept, unroll
from tiramisu_py.passes.registers.promote import registers
from tiramisu_py.passes.vectors.align import aligned
from tiramisu_py.passes.vectors.epilogue import has_masks, with_one_count
from tiramisu_py.passes.vectors.narrow import narrowed
from tiramisu_py.passes.vectors.vectorize import vectorize
from tiramisu_py.program.storage import Memory

#: The bytes that one instruction of a GPU loads or stores at most.
GPU_VECTOR = 16


def optimise(function: LoopFunction, register: int = 64) -> LoopFunction:
    """The function with full tiles separated, loops unrolled and vectorised, and small buffers in registers.

    `register` is the size of the processor's vectors in bytes (64 with AVX-512, 32 with AVX2, 16 otherwise): the code
    is right on every processor, and fast on that one. Afterwards only parallel loops are tagged.
    """
    taken = Names({*names(function.body), *function.params, *(argument.name for argument in function.arguments)})
    passes = Passes(taken, read_buffers(function.body), facts_of(function), register)
    body = passes.run(function.body)
    known = with_literals(replace(function, body=merged(body) if function.grid or function.kernels else body))
    versions = tuple(replace(each, function=optimise(each.function, register)) for each in function.versions)
    return replace(known, kernels=tuple(_kernel(kernel, passes.facts) for kernel in known.kernels), versions=versions)


def _kernel(kernel: KernelFunction, facts: Facts) -> KernelFunction:
    """A kernel after the same passes; its vectors are those that one instruction loads or stores."""
    declared = (*kernel.params, *(scalar.name for scalar in kernel.scalars), *(array.name for array in kernel.arrays))
    taken = Names({*names(kernel.body), *declared})
    facts = facts.in_blocks(kernel.threads).nonnegative_variables(kernel.nonnegative)
    body = Passes(taken, read_buffers(kernel.body), facts, GPU_VECTOR, kernel.threads).run(kernel.body)
    check_uniform(body, kernel.name)
    return replace(kernel, body=body)


@dataclass(frozen=True, eq=False)
class Passes:
    """The passes over one function: its names, the buffers that it reads, what it may rely on, and the register size.

    Of a kernel, `threads` is the shape of its blocks.

    The nests are worked on one by one, so that the cost grows with their number and not with its square.
    """

    taken: Names
    read: frozenset[str]
    facts: Facts
    register: int
    threads: tuple[int, int, int] | None = None

    @deep
    def run(self, node: Node) -> Node:
        """The statement after all passes."""
        if isinstance(node, Allocate) and not _is_small(node):
            inner = node.body if node.buffer in self.read else without_stores(node.body, node.buffer)
            body = self.run(inner)
            return replace(node, body=body) if node.buffer in self.read else body
        if isinstance(node, Events | Requests):
            return replace(node, body=self.run(node.body))
        if isinstance(node, Block):
            return block([self.run(child) for child in node.body])
        return self._nest(node)

    def _nest(self, node: Node) -> Node:
        if self.threads is not None:
            return self._of_kernel(node, self.threads)
        body = cut_prologues(simplify(counted(over_registers(node))), self.facts)
        body = full_tiles(body, self.taken)
        body = simplify(narrowed(unroll(body, self.taken), self.facts))
        body = simplify(vectorize(aligned(body, self.taken), self.taken, self.register))
        if has_masks(body):
            body = with_one_count(simplify(decide(body, self.facts)))
        body = simplify(registers(body, self.taken))
        return simplify(decide(body, self.facts))

    def _of_kernel(self, node: Node, threads: tuple[int, int, int]) -> Node:
        """Loops of a kernel stay loops, which its compiler unrolls: the text remains short, and says the same."""
        body = full_blocks(simplify(counted(over_registers(node))), threads, self.taken)
        body = simplify(decide(body, self.facts))
        body = simplify(vectorize(kept(body), self.taken, self.register, on_host=False))
        body = simplify(registers(body, self.taken))
        return named(merged(with_remainders(simplify(decide(body, self.facts)))), self.taken)


def _is_small(node: Allocate) -> bool:
    """Whether a buffer may become variables; its scope is then one nest."""
    return node.register or node.memory is Memory.SHARED or all(constant(extent) is not None for extent in node.extents)
