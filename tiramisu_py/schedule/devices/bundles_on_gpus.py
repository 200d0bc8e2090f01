"""Bundles on the blocks and threads of a GPU: each iteration has a thread of its own, or with ``grid=`` each thread has
the iterations whose numbers have one remainder by the number of threads.

::

    for j0, j1 = (h, x, y): S[h, x, y]     -->     n = 256*blockIdx.x + threadIdx.x: S of the iteration numbered n

For the program each iteration is a block of one thread: no two of them are ordered, and none shares memory with another
one, whatever their numbers are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tiramisu_py.errors import CommandError
from tiramisu_py.program.bundles import members
from tiramisu_py.program.loops import Bundle, GpuBlock, LoopId
from tiramisu_py.program.program import Program
from tiramisu_py.schedule.command_arguments import statements
from tiramisu_py.schedule.devices.tagging import Tagging
from tiramisu_py.schedule.loops.single_iterations import without_single_iterations
from tiramisu_py.schedule.nesting import check_nesting

#: The axes of a grid, which the loops of a bundle have for the program.
MOST_LOOPS = 3
#: The threads of a grid that is fixed are less than this.
MOST_THREADS = 2**31


def bundles_named(program: Program, names: Sequence[str], wanted: Sequence[str]) -> list[tuple[LoopId, ...]]:
    """The bundles that a command names among the loops of its statements, each once."""
    found = [members(program, s, name) for s in statements(program, names) for name in wanted]
    return list(dict.fromkeys(run for run in found if run))


def bundles_tagged(program: Program, runs: Sequence[tuple[LoopId, ...]], tagged: Tagging, command: str) -> Program:
    """The program with bundles dealt out to blocks of threads."""
    for run in runs:
        bundle = program.loops[run[0]].bundle
        assert bundle is not None
        _check(program, run, bundle, tagged)
        launch = replace(tagged.launch, together=bundle.size)
        for axis, number in enumerate(reversed(run)):
            loop = program.loops[number]
            if loop.tag is not None and not isinstance(loop.tag, GpuBlock):
                raise CommandError(f"bundle {bundle.name} is tagged already, by {loop.tagged_by}")
            program = program.with_loop(replace(loop, tag=GpuBlock(axis, launch), tagged_by=command))
        check_nesting(program, run[0])
    return without_single_iterations(program)


def _check(program: Program, run: tuple[LoopId, ...], bundle: Bundle, tagged: Tagging) -> None:
    """Refuse what a bundle on a GPU does not have."""
    name, gpu = bundle.name, program.targets.gpu
    if not bundle.within:
        raise CommandError(
            f"{name} is a bundle of loops, whose iterations are dealt out to blocks of a constant number of threads: "
            f"give split({name}, 256, {name}0, {name}1) before, and then blocks=[{name}0], threads=[{name}1], or for "
            f"terms of a reduction split {name}0 once more, and run that loop on blocks"
        )
    if tagged.blocks != (name,) or tagged.threads != (bundle.within,):
        raise CommandError(f"{name} and {bundle.within} are a bundle: give blocks=[{name}], threads=[{bundle.within}]")
    if tagged.combine is not None or tagged.across is not None:
        raise CommandError(
            f"the iterations of {name} and {bundle.within} have values of their own, and nothing is combined: leave "
            "combine= and across= out"
        )
    if tagged.launch.grid is not None and tagged.launch.grid * bundle.size >= MOST_THREADS:
        raise CommandError(f"{tagged.launch.grid} blocks of {bundle.size} threads are too many: give a smaller grid=")
    if len(run) > MOST_LOOPS:
        raise CommandError(
            f"{name} joins {len(run)} loops, and on a GPU at most {MOST_LOOPS}: leave the inner ones out of coalesce"
        )
    if bundle.size > min(gpu.most_threads, gpu.most_along[0]):
        raise CommandError(
            f"a block would have {bundle.size} threads, and {gpu.name} allows {gpu.most_threads}: split {name} by less"
        )
