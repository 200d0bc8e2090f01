"""The C function of a loaded library: its types, its calls, and its words where a call fails."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tiramisu_py.errors import KernelError
from tiramisu_py.ir import ArrayArgument, LoopFunction, ScalarArgument
from tiramisu_py.records import dataclass
from tiramisu_py.toolchain.calls.arguments import PreparedCall
from tiramisu_py.toolchain.calls.communicators import as_c_communicator, c_communicator
from tiramisu_py.toolchain.calls.numpy_arrays import address
from tiramisu_py.toolchain.calls.scalar_arguments import C_TYPES, Number, as_c
from tiramisu_py.toolchain.calls.storage import StoragePart
from tiramisu_py.toolchain.compilers.library import Library
from tiramisu_py.toolchain.gpu.device_arrays import DeviceArray
from tiramisu_py.toolchain.gpu.gpu_support import GpuPart
from tiramisu_py.toolchain.gpu.runtime import explained
from tiramisu_py.toolchain.traces.event_log import LastCall, read_log
from tiramisu_py.toolchain.traces.traffic import ArrayTraffic, CallTraffic

_Result = TypeVar("_Result")

#: In a forked process, OpenMP waits for threads that do not exist there, unless it is called from a new thread.
_FIRST_PROCESS = os.getpid()


@dataclass(frozen=True, eq=False)
class CFunction:
    """The C function of `function` in a library, run by a number of `threads`."""

    function: LoopFunction
    library: Library
    threads: int | None = None
    gpu: GpuPart | None = None
    storage: StoragePart | None = None

    @cached_property
    def entry(self) -> Any:
        """The function itself."""
        entry = self.library.loaded[self.function.name]
        entry.restype = ctypes.c_int
        declared = [ctypes.c_int64] * len(self.function.params) + [_c_type(a) for a in self.function.arguments]
        entry.argtypes = [*([c_communicator()] if self.function.grid else []), *declared]
        return entry

    @cached_property
    def last_error(self) -> Any:
        """The function that says what the last call of the thread found wrong."""
        last_error = self.library.loaded[f"{self.function.name}_last_error"]
        last_error.restype = ctypes.c_char_p
        last_error.argtypes = []
        return last_error

    def run(self, call: PreparedCall, comm: Any = None) -> LastCall | None:
        """One call; its log where the function keeps one. Raises `KernelError` if it reports a failure."""
        passed: list[Any] = [] if comm is None else [as_c_communicator(comm)]
        passed += [call.params[name] for name in self.function.params]
        passed += [_passed(argument, call.values[argument.name]) for argument in self.function.arguments]
        traffic = self._run(call, passed)
        if self.function.options.traced:
            log = read_log(self.library.loaded, self.function.name)
            return log if traffic is None else replace(log, traffic=traffic)
        return None if traffic is None else LastCall(self.function.name, traffic=traffic)

    def _run(self, call: PreparedCall, passed: list[Any]) -> CallTraffic | None:
        """One call; what it has moved, if it uses a GPU, or files."""
        traffic = CallTraffic((), 0, {})
        if self.gpu is None:
            self.call(passed)
        else:
            with watching(self.gpu, self.function, call.values) as seen:
                self.call(passed)
            traffic = CallTraffic.read(self.library.loaded, seen)
        if self.storage is None:
            return traffic if self.gpu else None
        return traffic.with_files(self.library.loaded, self.storage.arrays)

    def call(self, passed: Sequence[Any]) -> None:
        """One call with these arguments in C. Raises `KernelError` if it reports a failure."""
        if self.gpu:
            self._choose_device()
        if self.storage:
            self.storage.prepare_thread(self.function.name, self.library)
        code = self._with_threads(partial(self.entry, *passed)) if self.sets_threads else self.entry(*passed)
        if code:
            raise self.failure(code)

    def bound(self, call: PreparedCall) -> Callable[[], int]:
        """A call whose arguments are converted once, here: it returns the code that the function returns."""
        entry: Any = self.library.loaded[self.function.name]  # without argument types, which convert in each call
        entry.restype = ctypes.c_int
        params = [ctypes.c_int64(call.params[name]) for name in self.function.params]
        pairs = [(argument, _passed(argument, call.values[argument.name])) for argument in self.function.arguments]
        run = partial(entry, *params, *(_c_type(argument)(value) for argument, value in pairs))
        return partial(self._with_threads, run) if self.sets_threads else run

    def _with_threads(self, run: Callable[[], int]) -> int:
        """Runs the function with its number of threads, which is restored for the calling thread."""
        library = self.library.loaded
        before = library.omp_get_max_threads()
        if before == self.threads:
            return run()
        library.omp_set_num_threads(self.threads)
        try:
            return run()
        finally:
            library.omp_set_num_threads(before)

    @cached_property
    def sets_threads(self) -> bool:
        """Whether a call has a number of threads of its own."""
        return self.threads is not None and hasattr(self.library.loaded, "omp_set_num_threads")

    def failure(self, code: int) -> KernelError:
        """The message for a call that returned this code."""
        words = explained(code, (self.last_error() or b"").decode(errors="replace") or "it does not say why")
        title = self.function.title
        return KernelError(words if title in words else f"{title} failed with code {code}: {words}")

    def _choose_device(self) -> None:
        """Selects the device (and configures the simulator) for the calling thread, until its next call."""
        if self.gpu:
            use_device = self.library.loaded[f"{self.function.name}_use_device"]
            use_device.restype, use_device.argtypes = None, [ctypes.c_int]
            device = self.gpu.device
            use_device(device.number if device.named or not self.function.gpu_by_rank else -1)
            self.gpu.prepare_thread()


def openmp_works() -> bool:
    """Whether a function that uses OpenMP can run in this thread: not in a forked process."""
    return os.getpid() == _FIRST_PROCESS


def where_openmp_works(run: Callable[[], _Result]) -> _Result:
    """Runs a function that uses OpenMP in this thread, or in a new one in a forked process."""
    if openmp_works():
        return run()
    with ThreadPoolExecutor(max_workers=1) as fresh:
        return fresh.submit(run).result()


@contextmanager
def thread_count(library: ctypes.CDLL, threads: int | None) -> Iterator[None]:
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


def _c_type(argument: ArrayArgument | ScalarArgument) -> Any:
    return ctypes.c_void_p if isinstance(argument, ArrayArgument) else C_TYPES[argument.dtype]


def _passed(argument: ArrayArgument | ScalarArgument, value: npt.NDArray[Any] | DeviceArray) -> Number:
    if isinstance(argument, ArrayArgument) or isinstance(value, DeviceArray):
        return address(value)
    return as_c(argument.dtype, value)


# -- arrays that GPUs address in the host's memory, watched by the simulator during a call


@contextmanager
def watching(
    gpu: GpuPart, function: LoopFunction, values: Mapping[str, npt.NDArray[Any] | DeviceArray]
) -> Iterator[dict[str, ArrayTraffic]]:
    """Counts the accesses in place of the call inside, for each array that GPUs address; filled in at its end."""
    seen: dict[str, ArrayTraffic] = {}
    mapped = [a.name for a in function.arguments if isinstance(a, ArrayArgument) and a.mapped]
    if gpu.simulator is None or not gpu.checked:
        yield seen
        seen |= {name: ArrayTraffic(0, None, None, None) for name in mapped}
        return
    simulator = gpu.simulator.loaded
    watch, watched = simulator["tm_simulator_watch"], simulator["tm_simulator_watched"]
    watch.argtypes, watch.restype = (ctypes.c_void_p, ctypes.c_size_t), ctypes.c_void_p
    watched.argtypes, watched.restype = (ctypes.c_void_p, ctypes.POINTER(ctypes.c_int64)), None
    arrays = {name: array for name in mapped if isinstance(array := values[name], np.ndarray)}
    open_ones = {name: watch(array.__array_interface__["data"][0], array.nbytes) for name, array in arrays.items()}
    try:
        yield seen
    finally:
        for name, one in open_ones.items():
            counts = (ctypes.c_int64 * 3)()
            watched(one, counts)
            seen[name] = ArrayTraffic(0, *counts)
