"""The command that chooses the kind of GPU: gpu_target."""

from __future__ import annotations

from tiramisu_py.function.applying.scheduled import Scheduled
from tiramisu_py.program.machine.gpu_target import GpuTarget
from tiramisu_py.schedule.devices.set_gpu_target import SetGpuTarget


class GpuTargets(Scheduled):
    """The command for the kind of GPU that kernels run on."""

    def gpu_target(self, target: GpuTarget) -> None:
        """Choose the kind of GPU that the kernels run on; without this command, every GPU that CUDA supports.

        ::

            f.gpu_target(tm.GpuTarget("small", most_threads=256, most_shared=16 * 1024))

        All kernels of the function have to keep within the limits of the target: threads of a block, shared memory,
        and blocks of a grid. Commands refuse a block that exceeds them, the proof what later commands make of it, and a
        call a grid that is too large. The emitted kernels include the target's header, and `compile` uses its compiler.
        A second call replaces the first. Raises `CommandError` if a kernel exceeds a limit, or
        if the header is not a file.
        """
        self.apply(SetGpuTarget(self.name, target))
