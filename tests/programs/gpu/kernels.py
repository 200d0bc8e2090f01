"""Kernels for tests of what is derived: loops run on a GPU by hand, and what is found of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tests.programs.drafts import Draft
from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.program.kernels import KernelNest, kernels
from tiramisu_py.program.loops import Combine, GpuBlock, GpuThread, Launch, LoopId, Tag
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role


def on_gpu(
    draft: Draft,
    statement: str,
    blocks: Sequence[Iter] = (),
    threads: Sequence[Iter] = (),
    launch: Launch | None = None,
    combine: Combine | None = None,
) -> None:
    """Run loops of a statement on blocks and threads; the last of each list is axis x."""
    names = {draft.program.loops[loop].name: loop for loop in draft.program.statements[statement].loops}
    for axis, name in enumerate(reversed(blocks)):
        _tag(draft, names[name.name], GpuBlock(axis, launch or Launch()))
    for axis, name in enumerate(reversed(threads)):
        _tag(draft, names[name.name], GpuThread(axis, combine))


def _tag(draft: Draft, loop: LoopId, tag: Tag) -> None:
    old = draft.program.loops[loop]
    draft.change("tag", lambda program: program.with_loop(replace(old, tag=tag, tagged_by="tag_gpu")))


def barriers(program: Program) -> list[str]:
    """The barriers of a program, each with the loops around it, as text."""
    found = [s for s in program.statements.values() if s.role is Role.BARRIER]
    return [f"{' '.join(program.loop_names(s))}" for s in found]


def only_kernel(program: Program) -> KernelNest:
    """The kernel of a program that has one."""
    (nest,) = kernels(program)
    return nest
