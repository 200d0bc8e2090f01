"""The uses of an array of a function or kernel: loads and stores by indices, or something else."""

from __future__ import annotations

from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.ir import Allocate, ArrayArgument, Copy, KernelFunction, Launch, LoopFunction, Node, Store
from tiramisu_py.ir.rewriting import expressions, loads_in, names, walk
from tiramisu_py.program.storage import Memory

Indices = tuple[Expr, ...]


def host_shapes(function: LoopFunction) -> dict[str, Indices]:
    """The extents of the contiguous arrays of the host that only loads and stores of the function use."""
    arguments = {each.name: each for each in function.arguments if isinstance(each, ArrayArgument)}
    shapes = {name: each.extents for name, each in arguments.items() if is_plain(each)}
    shapes |= {each.buffer: each.extents for each in walk(function.body) if isinstance(each, Allocate) and is_own(each)}
    others = used_otherwise(function)
    return {name: extents for name, extents in shapes.items() if name not in others}


def kernel_shapes(function: LoopFunction, kernel: KernelFunction) -> dict[str, Indices]:
    """The extents of the arrays in the memory of its GPU that only loads and stores of a kernel index."""
    used = sent(function)
    launches = [node for node in walk(function.body) if isinstance(node, Launch) and node.kernel == kernel.name]
    kept = {
        own.name for node in launches for given, own in zip(node.arrays, kernel.arrays, strict=True) if given in used
    }
    others = otherwise(kernel.body) | kept
    arrays = [each for each in kernel.arrays if each.memory is Memory.GPU and each.passed is None]
    return {each.name: each.extents for each in arrays if each.name not in others}


def is_plain(array: ArrayArgument) -> bool:
    """Whether an argument is contiguous, and all of it in the memory of this rank's host."""
    return array.strides is None and array.device is None and not array.dealt


def is_own(array: Allocate) -> bool:
    """Whether a temporary is an ordinary array of the host."""
    special = array.register or array.lanes > 1 or array.ring or array.padded or array.pages is not None
    return not special and array.memory is Memory.HOST and array.device is None


def used_otherwise(function: LoopFunction) -> set[str]:
    """The arrays that something else than loads, stores and allocations uses: kernels, messages, calls, prefetches."""
    return {array.name for kernel in function.gpus.kernels for array in kernel.arrays} | otherwise(function.body)


def otherwise(body: Node, *others: type[Node]) -> set[str]:
    """The arrays that statements use, beside loads, stores, allocations, and statements of some types."""
    found = set[str]()
    for node in walk(body):
        if node.roles.inside:  # a message reads its array itself; what is inside of it is walked, too
            found |= {getattr(node, field) for field in node.roles.reads}
        elif not isinstance(node, (Store, Allocate, *others)):
            found |= names(node) - {load.buffer for e in expressions(node) for load in loads_in(e)}
    return found


def sent(function: LoopFunction) -> set[str]:
    """The arrays that messages or calls use, by their indices."""
    return otherwise(function.body, Copy, Launch)


def places(node: Node) -> dict[str, list[Indices]]:
    """The indices of all loads and stores, by array."""
    found: dict[str, list[Indices]] = {}
    for inner in walk(node):
        if isinstance(inner, Store):
            found.setdefault(inner.buffer, []).append(inner.indices)
        for e in expressions(inner):
            for load in loads_in(e):
                found.setdefault(load.buffer, []).append(load.indices)
    return found
