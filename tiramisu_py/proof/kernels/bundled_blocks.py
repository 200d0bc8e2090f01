"""Kernels whose blocks are a bundle: code numbers its iterations, and runs several on the threads of one block.

For the proof each iteration is a block of one thread. That is what any numbering gives, as long as nothing knows of
blocks: no barrier, no shared memory, no thread loops and no tickets; and as long as each iteration has a number, which
those of a box have.
"""

from __future__ import annotations

from collections.abc import Iterator

from tiramisu_py.program.bundles import BundledLoops
from tiramisu_py.program.kernels import KernelNest
from tiramisu_py.program.loops import GpuThread
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.program.storage import Memory
from tiramisu_py.proof.violations.findings import Finding, fault


def of_bundles(nest: KernelNest) -> Iterator[Finding]:
    """The first need of real blocks in a kernel whose blocks are the iterations of a bundle; at most one fault."""
    bundled = BundledLoops(nest.program, nest.blocks)
    names = bundled.names
    repair = f"keep the loops {names} apart, without coalesce, and give them to blocks and threads"
    if nest.beside or not _is_shared(nest) or not bundled.is_box:
        message = f"the blocks of the kernel of {nest.handle}, iterations of {names}, cannot be numbered together"
        yield fault("reach", "bundle", nest.statements[0], message, repair)
        return
    for statement in nest.statements:
        what = _needs_blocks(nest, statement)
        if what:
            message = f"{statement.handle} {what}, and each iteration of the bundle {names} is a block by itself"
            yield fault("reach", "bundle", statement, message, repair)
            return


def _is_shared(nest: KernelNest) -> bool:
    """Whether all statements have all loops of the bundle around them."""
    outer, run = len(nest.host), nest.blocks
    return all(s.loops[outer : outer + len(run)] == run for s in nest.statements)


def _needs_blocks(nest: KernelNest, statement: Statement) -> str:
    """The work of a statement that several threads of one block take part in; empty for other ones."""
    program = nest.program
    if any(isinstance(program.loops[loop].tag, GpuThread) for loop in statement.loops):
        return "is in a thread loop"
    if statement.role in (Role.BARRIER, Role.TICKET) or statement.link.deferred:
        return "is for all threads of a block"
    if statement.link.combination is not None:
        return "combines results of threads"
    buffers = [program.storages[name].buffer for name in statement.loads if name in program.storages]
    buffers += [program.storages[statement.memory.target].buffer] if statement.stores else []
    if any(program.buffers[name].memory is Memory.SHARED for name in buffers):
        return "uses shared memory"
    return ""
