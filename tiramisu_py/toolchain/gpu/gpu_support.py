"""The GPU part of a program: images of its kernels, or the simulator and kernels for it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path

from tiramisu_py.backends.cuda.signature import KernelSignature
from tiramisu_py.errors import ArgumentError, ToolchainError
from tiramisu_py.program.machine.gpu_target import CUDA, GpuTarget
from tiramisu_py.records import dataclass
from tiramisu_py.toolchain.compilers.cache import Cache
from tiramisu_py.toolchain.compilers.cuda_compiler import (
    Compiled,
    chosen_architectures,
    compile_kernels,
    find_cuda_compiler,
    oldest_architecture,
)
from tiramisu_py.toolchain.compilers.images import program_sources, relocatable_program, simulated_program
from tiramisu_py.toolchain.compilers.simulator import LIBRARY, Simulation, Simulator, load_simulator, simulated_kernels
from tiramisu_py.toolchain.gpu.available_gpus import Device, as_device
from tiramisu_py.toolchain.gpu.runtime import runtime_for

#: A program that has this file among its sources uses GPUs.


@dataclass(frozen=True)
class GpuOptions:
    """The GPU options of `compile`: the device, the behaviour of a simulated one, and the kernels' architectures."""

    device: str | Device | None = None
    checked: bool = False
    seed: int | None = None
    timing: str | None = None
    architectures: Sequence[object] | None = None

    def require_unused(self, name: str) -> None:
        """Raises `ArgumentError` if an option is given for a program that uses no GPU."""
        given = {
            "device": self.device, "sanitize": self.checked or None, "seed": self.seed, "timing": self.timing,
            "architectures": self.architectures,
        }  # fmt: skip
        for option, value in given.items():
            if value is not None:
                reason = f"{name} runs nothing on a GPU: tag loops with tag_gpu, or leave {option}= out"
                raise ArgumentError(f"{option}={value!r} is for GPUs, and {reason}")

    def chosen(self) -> Device:
        """The device. Raises `ArgumentError` for options that do not apply to it."""
        device = as_device("gpu" if self.device is None else self.device)
        if device.simulated and self.architectures is not None:
            raise ArgumentError(f'architectures={self.architectures!r} is for device="gpu", not for the simulator')
        for option, value in (("sanitize", self.checked or None), ("seed", self.seed), ("timing", self.timing)):
            if not device.simulated and value is not None:
                raise ArgumentError(
                    f'{option}={value!r} is for the simulator: give device="simulator", or leave it out'
                )
        return device


@dataclass(frozen=True)
class GpuPart:
    """The GPU part of a compiled program: its device, the additional source files of its library, and the simulator if
    that is the device.
    """

    device: Device
    device_count: int
    kernels: tuple[str, ...]
    files: Mapping[str, str]
    compiled: Compiled | None = None
    simulator: Simulator | None = None
    simulated_library: Path | None = None
    simulation: Simulation = field(default_factory=Simulation)
    checked: bool = False

    def prepare_thread(self) -> None:
        """Configures the simulated GPU for this program, in the calling thread."""
        if self.simulator:
            self.simulator.configure(self.simulation.options(self.device.number + self.device_count))

    def behaving(self, seed: int | None, timing: str | None) -> GpuPart:
        """This part with another simulation. Raises `ArgumentError` for a real GPU."""
        if not self.simulator:
            raise ArgumentError('a seed is for the simulator: compile with device="simulator"')
        return replace(self, simulation=Simulation(seed, timing))

    def exported(self, name: str) -> tuple[dict[str, str], dict[str, bytes]]:
        """The files of an exported library: texts, and libraries to place beside it."""
        if not self.simulator:
            return dict(self.files), {}
        own = self.simulated_library
        libraries = {LIBRARY: self.simulator.path.read_bytes(), **({own.name: own.read_bytes()} if own else {})}
        return relocatable_program(name, self.kernels, LIBRARY, own.name if own else None), libraries


#: Compilers of kernels, by what `GpuTarget.compiler` calls them.
COMPILERS = {CUDA.compiler: find_cuda_compiler}


def compile_gpu_part(
    cache: Cache,
    name: str,
    sources: Mapping[str, str],
    kernels: Sequence[KernelSignature],
    device_count: int,
    options: GpuOptions,
    fast: Collection[str] = (),
    target: GpuTarget = CUDA,
    least: int = 0,
    why: str = "",
) -> GpuPart:
    """Compiles the kernels in ``<name>.cu`` for the device of `options`.

    They run on GPUs from the architecture `least` on, for a reason that `why` says. Raises `ToolchainError` or
    `ArgumentError`.
    """
    _require_compiler(target)
    device, count = options.chosen(), max(device_count, 1)
    names = tuple(kernel.name for kernel in kernels)
    if device.simulated:
        simulation = Simulation(options.seed, options.timing)
        simulator = load_simulator(cache)
        library = simulated_kernels(cache, name, sources, kernels, options.checked) if kernels else None
        files = simulated_program(name, names, str(simulator.path), str(library) if library else None)
        return GpuPart(device, count, names, files, None, simulator, library, simulation, options.checked)
    if not kernels:
        return GpuPart(device, count, names, program_sources(name, names, ()))
    present, asked = _present(device, count), options.architectures
    compiler = COMPILERS[target.compiler](cache, oldest_architecture(asked, present))
    architectures = chosen_architectures(compiler, asked, present, least, why)
    compiled = compile_kernels(cache, compiler, f"{name}.cu", sources, architectures, fast)
    return GpuPart(device, count, names, program_sources(name, names, compiled.images), compiled)


def _require_compiler(target: GpuTarget) -> None:
    if target.compiler not in COMPILERS:
        known = ", ".join(COMPILERS)
        raise ToolchainError(f"kernels for {target.name} need the compiler {target.compiler!r}; known are: {known}")


def _present(device: Device, count: int) -> set[int]:
    """The architectures of the GPUs on which a program would run; empty if this machine has fewer GPUs."""
    runtime = runtime_for(device)
    numbers = range(device.number, device.number + count)
    return {runtime.architecture(number) for number in numbers} if runtime.count() >= numbers.stop else set()
