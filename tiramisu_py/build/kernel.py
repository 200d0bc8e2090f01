"""Kernels: compiled functions that are called with NumPy arrays."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy.typing as npt

from tiramisu_py.build.calls.arguments import Arguments, PreparedCall
from tiramisu_py.build.calls.communicators import Ranks, as_c_communicator, c_communicator
from tiramisu_py.build.calls.numpy_arrays import address
from tiramisu_py.build.calls.page_placement import new_array, report
from tiramisu_py.build.calls.scalar_arguments import C_TYPES, Number, as_c
from tiramisu_py.build.export import export
from tiramisu_py.build.gpu.device_arrays import DeviceArray
from tiramisu_py.build.gpu.gpu_support import GpuPart
from tiramisu_py.build.gpu.runtime import explained
from tiramisu_py.build.machine.first_touch import FirstTouch, first_touch
from tiramisu_py.build.toolchains.cache import open_cache
from tiramisu_py.build.toolchains.cuda_compiler import Resources
from tiramisu_py.build.toolchains.library import Library, Recipe, load
from tiramisu_py.build.traces.event_log import LastCall, LastCalls, read_log
from tiramisu_py.build.traces.trace import Trace
from tiramisu_py.build.travel import Packed, packed
from tiramisu_py.errors import ArgumentError, KernelError
from tiramisu_py.ir import ArrayArgument, LoopFunction, ScalarArgument

Array = npt.NDArray[Any]
_Result = TypeVar("_Result")

#: In a forked process, OpenMP waits for threads that do not exist there, unless it is called from a new thread.
_FIRST_PROCESS = os.getpid()


@dataclass(frozen=True, eq=False, repr=False)
class Kernel:
    """A compiled function: ``kernel(picture)`` takes the inputs in order of declaration and returns the outputs.

    Everything can be passed by name: inputs, parameters (otherwise inferred from shapes), and outputs, which are then
    written in place. The interpreter lock is released while the function runs, and several threads may call it.

    A distributed function is called by all ranks of a communicator, ``comm=`` (``MPI.COMM_WORLD`` by default), each
    with its own part of every array.

    A kernel can be copied, and pickled for another process (``multiprocessing``, ``concurrent.futures``): its library
    is found in the cache there, or built again. A kernel that uses GPUs must be compiled in each process instead.
    """

    function: LoopFunction
    recipe: Recipe
    arguments: Arguments
    shared: Library | None
    threads: int | None = None
    gpu: GpuPart | None = None
    ranks: Ranks | None = None
    _calls: LastCalls = field(default_factory=LastCalls, init=False)

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.function.name

    @property
    def source(self) -> dict[str, str]:
        """The generated files: text by name."""
        return dict(self.recipe.sources)

    @property
    def signature(self) -> str:
        """The prototype of the C function."""
        return self.recipe.sources.prototype

    @property
    def device(self) -> str | None:
        """The GPU that it was compiled for: "gpu", "gpu:1", "simulator"; None if it uses none."""
        return str(self.gpu.device) if self.gpu else None

    @property
    def resources(self) -> Mapping[str, Mapping[str, Resources]]:
        """The resources of each CUDA kernel, as the compiler reports them: by its name in the source, and by the
        architecture (``kernel.resources["blur_bx"]["sm_90"].registers``). Empty for the simulator.
        """
        return self.gpu.compiled.resources if self.gpu and self.gpu.compiled else {}

    @property
    def trace(self) -> Trace:
        """The events of this thread's last call, with their times. Raises `ArgumentError` if there was no call, if it
        failed, or if the kernel was compiled without ``trace=True``.
        """
        if not self.function.traced:
            raise ArgumentError(f"{self.name} keeps no trace: give trace=True to {self.name}.compile")
        return self._calls.trace(self.name)

    def seeded(self, seed: int | None, timing: str | None = None) -> Kernel:
        """The same kernel in another simulation: with another order of blocks, threads, and stream operations.

        `timing` is "eager", "lazy", "shuffled" or "threads"; by default the seed chooses. Raises `ArgumentError` if
        the kernel does not run on the simulator.
        """
        if self.gpu is None:
            raise ArgumentError(f"{self.name} uses no GPU, so that nothing of it is simulated")
        return replace(self, gpu=self.gpu.behaving(seed, timing))

    @property
    def library(self) -> Path:
        """The shared library in the cache. Raises `KernelError` if the target is another processor."""
        return self._loaded.path

    def __call__(self, /, *inputs: object, **named: object) -> Array | DeviceArray | tuple[Array | DeviceArray, ...]:
        """Runs the function; returns its output, or a tuple of them in order.

        Raises `ArgumentError`, naming the argument, if an argument does not fit, and `KernelError` if the function
        itself reports a failure. If one rank of a distributed function raises, all ranks do.
        """
        self._calls.remember(None)
        call, comm = self.ranks.bind(inputs, named) if self.ranks else (self.arguments.bind(inputs, named), None)
        if comm is None and self._writes_nothing(call):
            self._calls.remember(LastCall(self.name))
            return call.results[0] if len(call.results) == 1 else call.results
        self._calls.remember(self._where_openmp_works(lambda: self._run(call, comm)))
        return call.results[0] if len(call.results) == 1 else call.results

    def empty(self, name: str, /, *, comm: Any = None, **sizes: int) -> Array:
        """An array of zeros for the argument `name`, at these values of the parameters that its shape depends on.

        ::

            image, out = kernel.empty("image", R=800, C=600), kernel.empty("by", R=800, C=600)

        The threads that will use a page are the first to write it, so that it is on their memory node: the first
        dimension is distributed over the kernel's threads in blocks, as in a parallel loop. For a distributed function
        it is the part of this rank of `comm` (with ``pin="node"`` this call is collective). Raises `ArgumentError`.
        """

        def made() -> Array:
            with _thread_count(self._first_touch.loaded, self.threads):
                return new_array(self.arguments, self.ranks, self._first_touch, name, sizes, comm)

        return self._where_openmp_works(made)

    def placement(self) -> str:
        """A report of the pinning and memory placement on this machine, and of options without an effect here."""
        count = getattr(self._first_touch.loaded, "omp_get_max_threads", None) if self.recipe.openmp else None
        threads = (self.threads or int(count())) if count else 1
        return report(self.function, threads, self._first_touch)

    @cached_property
    def _first_touch(self) -> FirstTouch:
        foreign = self.recipe.processor.machine
        return first_touch(self._loaded.cache if foreign else open_cache(), self.recipe.toolchain)

    def export(self, folder: str | Path) -> Path:
        """Writes header, sources, libraries and build files, for C programs on machines without Python.

        Creates `folder` if it is missing, and replaces the files of an earlier export of this function. An export that
        fails leaves nothing. Raises `ToolchainError` if other files in the folder have the same names.
        """
        if not isinstance(folder, str | os.PathLike) or not os.fspath(folder):
            example = f'kernel.export("{self.name}")'
            raise ArgumentError(
                f'export takes the folder to write to, such as {example}, not {folder!r}; "." is the working folder'
            )
        return export(self.recipe, self.signature, Path(folder), self.gpu)

    def __copy__(self) -> Kernel:
        return replace(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Kernel:
        return replace(self)

    def __reduce__(self) -> tuple[Callable[[Packed], Kernel], tuple[Packed]]:
        return unpacked, (packed(self),)

    def __repr__(self) -> str:
        device = f" and {self.gpu.device}" if self.gpu else ""
        return f"<Kernel {self.signature} for {self.recipe.processor.name}{device}>"

    # -- the call

    @property
    def _loaded(self) -> Library:
        if self.shared is None:
            processor = self.recipe.processor
            options = "compiler= and target=" if processor.machine else "target="
            raise KernelError(
                f"{self.name} is compiled for {processor.name}; {processor.obstacle}. "
                f"Its library can be exported, not called: compile without {options} to call it here"
            )
        return self.shared

    def _where_openmp_works(self, run: Callable[[], _Result]) -> _Result:
        """Runs a function in this thread, or in a new one if OpenMP needs that."""
        if not self.recipe.openmp or os.getpid() == _FIRST_PROCESS:
            return run()
        with ThreadPoolExecutor(max_workers=1) as fresh:
            return fresh.submit(run).result()

    @cached_property
    def _entry(self) -> Any:
        entry = self._loaded.loaded[self.name]
        entry.restype = ctypes.c_int
        declared = [ctypes.c_int64] * len(self.function.params) + [
            ctypes.c_void_p if isinstance(a, ArrayArgument) else C_TYPES[a.dtype] for a in self.function.arguments
        ]
        entry.argtypes = [*([c_communicator()] if self.ranks else []), *declared]
        return entry

    @cached_property
    def _last_error(self) -> Any:
        last_error = self._loaded.loaded[f"{self.name}_last_error"]
        last_error.restype = ctypes.c_char_p
        last_error.argtypes = []
        return last_error

    def _writes_nothing(self, call: PreparedCall) -> bool:
        """Whether all arrays to write are empty; loops over other dimensions could still run for very long."""
        written = (a.name for a in self.function.arguments if isinstance(a, ArrayArgument) and a.is_output)
        return self.shared is not None and not any(call.values[name].size for name in written)

    def _run(self, call: PreparedCall, comm: Any = None) -> LastCall | None:
        entry, last_error = self._entry, self._last_error
        passed: list[Any] = [] if comm is None else [as_c_communicator(comm)]
        passed += [call.params[name] for name in self.function.params]
        passed += [_passed(argument, call.values[argument.name]) for argument in self.function.arguments]
        with _thread_count(self._loaded.loaded, self.threads):
            self._choose_device()
            code = entry(*passed)
        if code:
            words = explained(code, (last_error() or b"").decode(errors="replace") or "it does not say why")
            raise KernelError(words if self.name in words else f"{self.name} failed with code {code}: {words}")
        return read_log(self._loaded.loaded, self.name) if self.function.traced else None

    def _choose_device(self) -> None:
        """Selects the device (and configures the simulator) for the calling thread, until its next call."""
        if self.gpu:
            use_device = self._loaded.loaded[f"{self.name}_use_device"]
            use_device.restype, use_device.argtypes = None, [ctypes.c_int]
            device = self.gpu.device
            use_device(device.number if device.named or not self.function.gpu_by_rank else -1)
            self.gpu.prepare_thread()


def unpacked(given: Packed) -> Kernel:
    """A kernel from another process. Raises `ToolchainError` if its library cannot be built here."""
    function, recipe = given.function, given.recipe_here()
    arguments = Arguments(function, given.algorithm, given.verify_values)
    ranks = Ranks(arguments, function.grid) if function.grid else None
    shared = None if recipe.processor.obstacle else load(recipe)
    return Kernel(function, recipe, arguments, shared, given.threads, None, ranks)


def _passed(argument: ArrayArgument | ScalarArgument, value: Array | DeviceArray) -> Number:
    if isinstance(argument, ArrayArgument) or isinstance(value, DeviceArray):
        return address(value)
    return as_c(argument.dtype, value)


@contextmanager
def _thread_count(library: ctypes.CDLL, threads: int | None) -> Iterator[None]:
    """Sets the number of OpenMP threads of the calling thread, and restores it; does nothing without OpenMP."""
    if threads is None or not hasattr(library, "omp_set_num_threads"):
        yield
        return
    before = library.omp_get_max_threads()
    library.omp_set_num_threads(threads)
    try:
        yield
    finally:
        library.omp_set_num_threads(before)
