"""The command that chooses the kind of GPU: its limits hold for all kernels of the function."""

from __future__ import annotations

from dataclasses import replace

from tiramisu_py.errors import CommandError
from tiramisu_py.program.machine.gpu_target import GpuTarget
from tiramisu_py.program.program import Program
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.command_fields import OnFunction
from tiramisu_py.schedule.devices.tag_gpu import check_limits


def set_gpu_target(program: Program, target: object) -> Program:
    """The program for another kind of GPU; raises `CommandError`."""
    if not isinstance(target, GpuTarget):
        name = program.algorithm.name
        raise CommandError(
            f"{name}.gpu_target takes a tm.GpuTarget, such as tm.GpuTarget('small', most_threads=256), not {target!r}; "
            f"architectures are named by {name}.compile(architectures=[...]), devices by {name}.compile(device=...)"
        )
    if not target.header_file.is_file():
        raise CommandError(
            f"the header of {target.name}, {target.header}, is not a file: give tm.GpuTarget(header=...) the absolute "
            "path of one"
        )
    chosen = program.with_(targets=replace(program.targets, gpu=target))
    check_limits(chosen, tuple(chosen.statements))
    return chosen


# -- the commands as values


@dataclass(frozen=True, eq=False)
class SetGpuTarget(OnFunction):
    """Choose the kind of GPU that the kernels run on; without this command, every GPU that CUDA supports.

    ::

        f.gpu_target(tm.GpuTarget("small", most_threads=256, most_shared=16 * 1024))

    All kernels of the function have to keep within the limits of the target: threads of a block, shared memory,
    and blocks of a grid. Commands refuse a block that exceeds them, the proof what later commands make of it, and a
    call a grid that is too large. The emitted kernels include the target's header, and `compile` uses its compiler.
    A second call replaces the first. Raises `CommandError` if a kernel exceeds a limit, or
    if the header is not a file.
    """

    verb = "gpu_target"

    target: GpuTarget

    def applied(self, program: Program) -> Program:
        return set_gpu_target(program, self.target)
