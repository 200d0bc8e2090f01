"""Limits of GPUs: threads of a block, and shared memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tiramisu_py.algorithm.expressions import Const
from tiramisu_py.algorithm.types import TupleType, component_types
from tiramisu_py.program.kernels import KernelNest, axis_name, block_tree, is_in_order
from tiramisu_py.program.machine.gpu_target import SHARED_ALIGNED, SHARED_UNASKED, placed_bytes
from tiramisu_py.program.statement import Role
from tiramisu_py.program.storage import Buffer, Memory
from tiramisu_py.proof.violations.findings import Finding, fault


def faults(nest: KernelNest) -> Iterator[Finding]:
    """Every limit that a kernel exceeds."""
    yield from _threads(nest)
    yield from _registers(nest)
    yield from _shared(nest)


def _threads(nest: KernelNest) -> Iterator[Finding]:
    some, shape, gpu = nest.statements[0], nest.shape, nest.gpu
    count = shape[0] * shape[1] * shape[2]
    along = [str(extent) for extent in shape if extent > 1]
    extents = f"{' x '.join(along)} = {count:,}" if len(along) > 1 else f"{count:,}"
    where = f"the kernel of {nest.handle}"
    for axis, extent in enumerate(shape):
        if extent > gpu.most_along[axis]:
            most = f"{gpu.name} allows {gpu.most_along[axis]:,}"
            message = f"{where} has {extent:,} threads along axis {axis_name(axis)}; {most}"
            yield fault("bounds", "along", some, message, "split a thread loop by less")
            return
    if count > gpu.most_threads:
        message = f"{where} has {extents} threads in a block; {gpu.name} allows {gpu.most_threads:,}"
        yield fault("bounds", "count", some, message, "split a thread loop by less")


def _registers(nest: KernelNest) -> Iterator[Finding]:
    for buffer in _buffers_in(nest, Memory.REGISTER):
        if not _is_constant(buffer):
            shape = ", ".join(map(str, buffer.extents))
            message = (
                f"{buffer.name} is in registers of the kernel of {nest.handle} and has the shape [{shape}], which is "
                "not constant"
            )
            own = next(storage.source for storage in nest.program.storages_in(buffer.name))
            repair = (
                f"keep {own} in memory=tm.GPU_MEMORY, outside of the kernel, or compute it where its extents are "
                "constant"
            )
            yield fault("bounds", f"registers {buffer.name}", nest.statements[0], message, repair)


def _shared(nest: KernelNest) -> Iterator[Finding]:
    buffers = shared_buffers(nest)
    for buffer in buffers:
        if not _is_constant(buffer):
            shape = ", ".join(map(str, buffer.extents))
            message = f"{buffer.name} is in shared memory and has the shape [{shape}], which is not constant"
            repair = "split the loops around what is copied by constants"
            yield fault("bounds", "extents", nest.statements[0], message, repair)
            return
    yield from filter(None, (_swizzle(nest, buffer) for buffer in buffers))
    sizes, own = {buffer.name: shared_bytes(buffer) for buffer in buffers}, _of_trees(nest)
    if any(is_in_order(nest.program, loop) for loop in nest.blocks):
        own["the number that the block draws"] = 4
    other = nest.other_part
    if nest.is_last:
        return  # what both parts need is looked at once
    if other is not None:
        sizes |= {buffer.name: shared_bytes(buffer) for buffer in shared_buffers(other)}
        own |= {**_of_trees(other), "the ticket": 1}
    yield from _more_than(nest, sizes | own, nest.gpu.most_shared, nest.gpu.name)
    if placed_bytes(own.values()) > SHARED_UNASKED:  # the launch asks for the arrays alone
        yield from _more_than(nest, own, SHARED_UNASKED, "the compiler")


def _swizzle(nest: KernelNest, buffer: Buffer) -> Finding | None:
    """Rows whose groups would change places with some that they do not have.

    r, c -> r, c ^ group * (r // alike % rows), powers of two, is one to one on 0 <= c < extent if group * turned
    divides extent, where `turned` is the least power of two above all r // alike % rows.
    """
    if buffer.swizzle is None:
        return None
    rows, group, *others = buffer.swizzle
    alike = others[0] if others else 1
    own = next(storage.source for storage in nest.program.storages_in(buffer.name))
    shape = ", ".join(map(str, buffer.extents))
    swizzle = f"{buffer.name} has the shape [{shape}] in shared memory, and swizzle={buffer.swizzle}"
    if len(buffer.extents) < 2:
        message = f"{swizzle} needs rows and columns"
        return fault("bounds", f"swizzle {buffer.name}", nest.statements[0], message, "leave swizzle= out")
    height, extent = (int(each.value) if isinstance(each, Const) else 0 for each in buffer.extents[-2:])
    turned = min(rows, 1 << (max(height - 1, 0) // alike).bit_length())
    if extent % (turned * group) == 0:
        return None
    message = (
        f"{swizzle} turns groups of {group} among {turned * group} elements of a row: a row of {extent} is no multiple "
        "of that, so that elements would lie outside of it"
    )
    fitting = turned
    while extent % (fitting * group):
        fitting //= 2
    repair = f"{own}.store_in(tm.SHARED, swizzle={(fitting, group, *others)})" if fitting > 1 else "leave swizzle= out"
    return fault("bounds", f"swizzle {buffer.name}", nest.statements[0], message, repair)


def _more_than(nest: KernelNest, sizes: Mapping[str, int], most: int, who: str) -> Iterator[Finding]:
    total = placed_bytes(sizes.values())
    if total > most:
        parts = ", ".join(f"{name} {size:,}" for name, size in sizes.items())
        parts += "" if total == sum(sizes.values()) else f", each at a multiple of {SHARED_ALIGNED} bytes"
        message = (
            f"the kernel of {nest.handle} needs {total:,} bytes of shared memory in each block ({parts}); "
            f"{who} allows {most:,}"
        )
        yield fault("bounds", "shared", nest.statements[0], message, "make the tiles smaller")


def _of_trees(nest: KernelNest) -> dict[str, int]:
    """The bytes of the partial results of each tree, by its name in messages."""
    found: dict[str, int] = {}
    for statement in nest.statements:
        if statement.role is Role.COMBINE and statement.link.combination is not None:
            dtype = nest.program.algorithm.source(statement.source).dtype
            tree = f"the tree of {nest.program.statements[statement.link.combination.of].handle}"
            names = [f"{tree}, {name}" for name, _ in dtype.fields] if isinstance(dtype, TupleType) else [tree]
            for name, own in zip(names, component_types(dtype), strict=True):
                found[name] = block_tree(nest, statement).shared_parts * own.bytes
    return found


def shared_buffers(nest: KernelNest) -> list[Buffer]:
    """The buffers in shared memory that a kernel's statements use."""
    return _buffers_in(nest, Memory.SHARED)


def _is_constant(buffer: Buffer) -> bool:
    return all(isinstance(extent, Const) for extent in buffer.extents)


def _buffers_in(nest: KernelNest, memory: Memory) -> list[Buffer]:
    program = nest.program
    names: dict[str, None] = {}
    for statement in nest.statements:
        if statement.stores:
            used = [statement.memory.target, *statement.memory.sources.values(), statement.source]
            names |= dict.fromkeys(program.storages[name].buffer for name in used if name in program.storages)
    return [program.buffers[name] for name in names if program.buffers[name].memory is memory]


def shared_bytes(buffer: Buffer) -> int:
    """The bytes of a buffer with constant extents."""
    count = buffer.dtype.bytes
    for extent in buffer.extents:
        count *= int(extent.value) if isinstance(extent, Const) else 1
    return count
