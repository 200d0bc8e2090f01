"""Kernels: compiled functions that are called with NumPy arrays."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy.typing as npt

from tiramisu_py.algorithm.domains.extents_from_arguments import infer_params
from tiramisu_py.errors import ArgumentError, KernelError
from tiramisu_py.ir import ArrayArgument, LoopFunction
from tiramisu_py.passes.memory.temporary_bytes import temporary_bytes
from tiramisu_py.passes.vectors.remarks import remarks
from tiramisu_py.records import dataclass
from tiramisu_py.styles import as_html
from tiramisu_py.toolchain.calls.arguments import Arguments, PreparedCall
from tiramisu_py.toolchain.calls.bound_call import BoundCall
from tiramisu_py.toolchain.calls.c_function import CFunction, openmp_works, where_openmp_works
from tiramisu_py.toolchain.calls.communicators import Ranks
from tiramisu_py.toolchain.calls.packed_arrays import PackedArray, packing_of
from tiramisu_py.toolchain.calls.page_placement import PagePlacement
from tiramisu_py.toolchain.calls.repeated_calls import RepeatedCalls
from tiramisu_py.toolchain.calls.result_kinds import in_kind_of
from tiramisu_py.toolchain.calls.storage import StoragePart
from tiramisu_py.toolchain.compilers.cuda_compiler import Resources
from tiramisu_py.toolchain.compilers.library import Library, LibraryRecipe, load
from tiramisu_py.toolchain.compilers.nvdisasm import machine_code
from tiramisu_py.toolchain.export import export
from tiramisu_py.toolchain.gpu.device_arrays import DeviceArray
from tiramisu_py.toolchain.gpu.gpu_support import GpuPart
from tiramisu_py.toolchain.processor_versions import VersionChoice, loaded_versions
from tiramisu_py.toolchain.timing import SECONDS, Timing, measured, operations_of
from tiramisu_py.toolchain.traces.event_log import LastCall, LastCalls
from tiramisu_py.toolchain.traces.trace import Trace
from tiramisu_py.toolchain.traces.traffic import ArrayTraffic, Launches
from tiramisu_py.toolchain.travel import Packed, packed
from tiramisu_py.view.machine_code import MachineCode
from tiramisu_py.view.roofline import Rates, require_rates

Array = npt.NDArray[Any]
Results = Array | DeviceArray | tuple[Array | DeviceArray, ...]
_Result = TypeVar("_Result")


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
    recipe: LibraryRecipe
    arguments: Arguments
    shared: Library | None
    threads: int | None = None
    gpu: GpuPart | None = None
    ranks: Ranks | None = None
    choice: VersionChoice | None = None
    storage: StoragePart | None = None
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
    def remarks(self) -> tuple[str, ...]:
        """The vector code that runs lane by lane, and why, in sentences that begin with the array that is stored.

        ::

            for remark in kernel.remarks:
                print(remark)           # result: called for each lane: tanh

        Those are functions without a vector instruction, elements at computed indices, elements that are apart in
        memory (with the commands that make these whole vectors, if there are any), and statements that cannot be
        computed on all lanes at once. The source has each as a comment where it is.
        """
        return remarks(self.function)

    def temporary_bytes(self, **params: int) -> Mapping[str, int]:
        """The most bytes of temporaries that a call has at a time: in "memory", in "files", and on each GPU ("GPU 0").

        ::

            kernel.temporary_bytes(N=2000, M=1000)      # {"memory": 16000000}

        A temporary exists from its first use to its last, and gives its memory on to those that begin later. Each
        thread's own ones count as often as there are threads; a rank's number is a parameter, ``rank0=0``. Raises
        `ArgumentError` for a parameter without a value.
        """
        grid = self.function.grid
        names = (*self.function.params, *(grid.coordinates if grid else ()))
        return temporary_bytes(self.function, infer_params(names, [], params), self.threads or 1)

    @property
    def version(self) -> str:
        """The processor for which the code is compiled that runs: of several versions (`compile_versions`), the one
        that the library has chosen for this machine; the most general one if the machine can run none.
        """
        return self.choice.chosen.processor if self.choice else self.recipe.processor.name

    @property
    def versions(self) -> tuple[str, ...]:
        """The processors of all its versions, the best one first."""
        return self.choice.processors if self.choice else (self.version,)

    def using(self, version: str) -> Kernel:
        """This kernel with another of its versions, for tests and comparisons.

        ::

            kernel = tm.compile_versions(scheduled, ["x86-64-v2", "x86-64-v3"])
            assert np.array_equal(kernel(image), kernel.using("x86-64-v2")(image))

        Raises `ArgumentError` if there is no such version, or if this machine cannot run it.
        """
        if self.choice is None:
            raise ArgumentError(f"{self.name} has one version, for {self.version}: tm.compile_versions makes several")
        choice = self.choice.using(version, self.recipe)
        return replace(self, function=choice.function, choice=choice)

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

    def machine_code(self) -> Mapping[str, Mapping[str, MachineCode]]:
        """The machine code of each CUDA kernel, counted: by its name in the source, and by the architecture
        (``kernel.machine_code()["blur_bx"]["sm_90"].loops``). Empty for the simulator.

        Raises `ToolchainError` if no nvdisasm is installed; the message says what installs it.
        """
        found: dict[str, dict[str, MachineCode]] = {}
        for image in self.gpu.compiled.images if self.gpu and self.gpu.compiled else ():
            if not image.architecture.virtual:
                for name, code in machine_code(image.content).items():
                    found.setdefault(name, {})[image.architecture.name] = code
        return found

    @property
    def trace(self) -> Trace:
        """The events of this thread's last call, with their times. Raises `ArgumentError` if there was no call, if it
        failed, or if the kernel was compiled without ``trace=True``.
        """
        if not self.function.options.traced:
            raise ArgumentError(f"{self.name} keeps no trace: give trace=True to {self.name}.compile")
        return self._calls.trace(self.name)

    @property
    def traffic(self) -> Mapping[str, ArrayTraffic]:
        """The traffic of this thread's last call for each array, by name: copied, stored to files and loaded from them,
        and read or written in place by GPUs.

        ::

            print(kernel.traffic["rows"])
            -->    ArrayTraffic(copied=0, read=525312, written=0, requests=8272, stored=0, loaded=0)

        Bytes are counted as copies are made. Those in place are of unified arrays (``memory=tm.HOST_MAPPED``), and only
        the simulator counts them, with ``sanitize=True``: else they are None. Raises `ArgumentError` if there was no
        call, if it failed, or if the kernel uses no GPU and no file.
        """
        if self.gpu is None and self.storage is None:
            raise ArgumentError(f"{self.name} uses no GPU and no file: it moves nothing between memories")
        return self._calls.traffic(self.name).by_array(self.function)

    @property
    def launches(self) -> Launches:
        """The kernels and the CUDA graphs that this thread's last call has launched.

        ::

            print(kernel.launches)       # compiled with graph=True
            -->    Launches(kernels=3, graphs=1)

        Raises `ArgumentError` if there was no call, if it failed, or if the kernel uses no GPU.
        """
        if self.gpu is None:
            raise ArgumentError(f"{self.name} uses no GPU: it launches no kernels")
        return self._calls.traffic(self.name, "launches").launches

    def seeded(self, seed: int | None, timing: str | None = None) -> Kernel:
        """This kernel in another simulation: with another order of blocks, threads, stream operations, and of copies to
        and from a simulated disk.

        `timing` is "eager", "lazy", "shuffled" or "threads" (not of a disk); by default the seed chooses. Raises
        `ArgumentError` if the kernel does not run on a simulator.
        """
        storage = None if self.storage is None else self.storage.behaving(seed, timing)
        if self.gpu is None and (storage is None or not storage.simulated):
            raise ArgumentError(f"{self.name} uses no GPU, and no simulated disk: there is nothing to simulate")
        if self.gpu is None or (storage is not None and storage.simulated and not self.gpu.simulator):
            return replace(self, storage=storage)
        return replace(self, gpu=self.gpu.behaving(seed, timing), storage=storage)

    @property
    def library(self) -> Path:
        """The shared library in the cache. Raises `KernelError` if the target is another processor."""
        return self._loaded.path

    def __call__(self, /, *inputs: object, **named: object) -> Results:
        """Runs the function; returns its output, or a tuple of them in order, as they are stored.

        Raises `ArgumentError`, naming the argument, if an argument does not fit, and `KernelError` if the function
        itself reports a failure. If one rank of a distributed function raises, all ranks do.
        """
        if self._repeated is not None and (not self._uses_openmp or openmp_works()):
            results = self._repeated.results(inputs, named)
            if results is not None:
                return results[0] if len(results) == 1 else results
        return self._called(inputs, named)

    def _called(self, inputs: tuple[object, ...], named: dict[str, object]) -> Results:
        """A call of which everything is looked at."""
        self._calls.remember(None)
        inputs, named = self._packed(inputs, named)
        call, comm = self.ranks.bind(inputs, named) if self.ranks else (self.arguments.bind(inputs, named), None)
        results = in_kind_of((*inputs, *named.values()), call.results)
        if comm is None and self._writes_nothing(call):
            self._calls.remember(LastCall(self.name))
        else:
            self._calls.remember(self._where_openmp_works(lambda: self._c_function.run(call, comm)))
            if self._repeated is not None:
                self._repeated.remember(inputs, named, call)
        return results[0] if len(results) == 1 else results

    def bound(self, /, *inputs: object, **named: object) -> BoundCall:
        """A call with these arguments, which are checked here, once: each call of the result runs the function on the
        same arrays, for a fraction of the time of a call with arguments.

        ::

            step = kernel.bound(state, rates, new=new)
            for _ in range(1000):
                step()

        It keeps the arrays, and each call reads what they hold then; outputs that are not passed are allocated once.
        Facts about inputs are verified in every call, as always. Raises `ArgumentError` as a call does, and for inputs
        that are not ready for it: plain arrays that the kernel takes packed (see `pack`), arrays of other libraries on
        GPUs, and functions of ranks.
        """
        self._require_bindable(inputs, named)
        call = self.arguments.bind(inputs, named)
        return self._bound(replace(call, results=in_kind_of((*inputs, *named.values()), call.results)))

    def time(
        self,
        /,
        *inputs: object,
        calls: int | None = None,
        seconds: float = SECONDS,
        machine: Rates | None = None,
        **named: object,
    ) -> Timing:
        """The times of calls with these arguments, one after another, beside what moves and what is computed.

        ::

            print(kernel.time(image, machine=tm.Machine.here()))
            -->    blur: minimum 412 us, median 420 us of 1180 calls
                     16.1 Mbytes: 39.1 GB/s, 91% of this machine's copy in memory (43 GB/s)
                     12 Moperations: 29.1 Gop/s, 31% of this machine's multiply-adds (94 Gop/s)

        After one call to warm up there are `calls` calls, or as many as take about so many `seconds`. Arguments are
        checked, packed, and outputs allocated once (see `bound`); an array that is written in place keeps the result of
        one call for the next. For a distributed function all ranks call this, and the time is that of the slowest one.
        Raises `ArgumentError` as a call does, and for a `machine` without rates.
        """
        if machine is not None:
            require_rates(machine)
        if self.ranks is not None:
            call, comm = self.ranks.bind(inputs, named)
            times = measured(lambda: self(*inputs, **named), calls, seconds, comm)
            amount = comm.allreduce(self._moved(call))
        else:
            given = self._packed(inputs, dict(named))
            call = self.arguments.bind(*given)
            times, amount = measured(self._bound(call), calls, seconds), self._moved(call)
        params = {name: call.params[name] for name in self.arguments.algorithm.params}
        return Timing(self.name, times, amount, operations_of(self.arguments.algorithm, params), machine)

    def _bound(self, call: PreparedCall) -> BoundCall:
        function, known = self._c_function, self.arguments
        results = call.results[0] if len(call.results) == 1 else call.results
        run: Callable[[], int | None]
        if self._writes_nothing(call):
            run = int
        elif self.gpu is not None or self.storage is not None or self.function.options.traced:
            run = partial(self._logged, call)
        else:
            run = function.bound(call)
        if self._uses_openmp:
            run = partial(where_openmp_works, run)
        if known.verifies:
            run = partial(_verified, run, partial(known.verify, call.values, call.params))
        arrays = {a.name: call.values[name] for name, a in known.arrays.items() if a.is_output}
        written = {name: array for name, array in arrays.items() if not isinstance(array, DeviceArray)}
        return BoundCall(self.name, run, function.failure, results, written, (call, function))

    def _moved(self, call: PreparedCall) -> int:
        """The bytes of the arguments, each read once if it is an input, and written once if it is an output."""
        arrays = [a for a in self.function.arguments if isinstance(a, ArrayArgument)]
        return sum(call.values[a.name].nbytes * (a.is_input + a.is_output) for a in arrays)

    def _logged(self, call: PreparedCall) -> None:
        self._calls.remember(self._c_function.run(call))

    def _require_bindable(self, inputs: tuple[object, ...], named: dict[str, object]) -> None:
        if self.ranks is not None:
            raise ArgumentError(f"{self.name} is called by all ranks, which check each call together: call it")
        given = self.arguments.matched(inputs, named)
        for name, value in given.items():
            if name in self.arguments.packing.functions and not isinstance(value, PackedArray):
                raise ArgumentError(
                    f"{self.name} takes {name} packed, and a bound call packs nothing: pass "
                    f'kernel.pack("{name}", {name})'
                )
            declared = self.arguments.arrays.get(name)
            if declared is not None and declared.device is not None and not isinstance(value, DeviceArray):
                raise ArgumentError(
                    f"{name} is on a GPU, where another library may write it between calls: pass an array of "
                    "tm.to_gpu, or call the kernel with arguments"
                )

    def pack(self, name: str, array: object, /, **sizes: int) -> PackedArray:
        """The input `name` as the kernel reads it, to be passed in its place to any number of calls.

        ::

            packed = kernel.pack("weights", weights)
            results = [kernel(picture, packed) for picture in pictures]

        It is for inputs of which operands are kept (`keep`); their declared facts are verified here. `sizes` are
        parameters that do not follow from the shape. Raises `ArgumentError` if the input is not passed packed, or if
        the array does not fit.
        """
        packing = self.arguments.packing
        if name not in packing.functions:
            listed = ", ".join(packing.functions)
            which = f"it keeps operands of {listed}" if listed else "it keeps no operands between calls (see keep)"
            raise ArgumentError(f"{self.name} does not take {name!r} packed: {which}")
        function = packing.functions[name]
        algorithm = self.arguments.algorithm
        own = replace(algorithm, inputs={name: algorithm.inputs[name]}, outputs=function.outputs)
        call = Arguments(function, own, self.arguments.verify_values).bind((array,), sizes)
        run = CFunction(function, self._loaded, self.threads).run
        self._where_openmp_works(lambda: run(call))
        arrays = dict(zip(function.outputs, cast(tuple[Array, ...], call.results), strict=True))
        for each in arrays.values():
            each.flags.writeable = False
        return PackedArray(self.name, name, dict(call.params), arrays, packing.keys[name])

    def empty(self, name: str, /, *, comm: Any = None, **sizes: int) -> Array:
        """An array of zeros for the argument `name`, at these values of the parameters that its shape depends on.

        ::

            image, out = kernel.empty("image", R=800, C=600), kernel.empty("by", R=800, C=600)

        The threads that will use a page are the first to write it, so that it is on their memory node: the first
        dimension is distributed over the kernel's threads in blocks, as in a parallel loop. For a distributed function
        it is the part of this rank of `comm` (with ``pin="node"`` this call is collective). For an argument that GPUs
        address in the host's memory it is unified (see `pinned_empty`). Raises `ArgumentError`.
        """
        new_array = self._pages.new_array
        return self._where_openmp_works(lambda: new_array(self.arguments, self.ranks, name, sizes, comm))

    def placement(self) -> str:
        """A report of the pinning and memory placement on this machine, and of options without an effect here."""
        return self._pages.report(self.function)

    @cached_property
    def _pages(self) -> PagePlacement:
        return PagePlacement(self._loaded, self.recipe, self.threads)

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
        versions = f" of {', '.join(self.versions)}" if self.choice else ""
        return f"<Kernel {self.signature} for {self.version}{versions}{device}>"

    def _repr_html_(self) -> str:
        """In a notebook: the prototype, and its own files of the source, to be opened."""
        own = {name: text for name, text in self.source.items() if name.startswith(self.name)}
        files = [f"<details><summary>{name}</summary>{as_html(text)}</details>" for name, text in own.items()]
        return as_html(repr(self)) + "".join(files)

    # -- the call

    @property
    def _loaded(self) -> Library:
        if self.shared is None:
            processor = self.recipe.processor
            if self.recipe.versions and not processor.obstacle:
                raise KernelError(
                    f"this machine can run none of the versions of {self.name}, so its library can be exported, not "
                    "called: compile one for a more general processor, too"
                )
            options = "compiler= and target=" if processor.machine else "target="
            raise KernelError(
                f"{self.name} is compiled for {processor.name}; {processor.obstacle}, "
                f"so its library can be exported, not called: compile without {options} to call it here"
            )
        return self.shared

    @cached_property
    def _c_function(self) -> CFunction:
        function = self.choice.chosen.function if self.choice else self.function
        return CFunction(function, self._loaded, self.threads, self.gpu, self.storage)

    @cached_property
    def _repeated(self) -> RepeatedCalls | None:
        """The kinds of calls so far; None if each call has more to look at than types, shapes and addresses."""
        known = self.arguments
        special = (
            self.gpu is not None or self.storage is not None or self.ranks is not None or self.function.options.traced
        )
        plain = self.shared is not None and not special
        return RepeatedCalls(known, self._c_function) if plain and known.checked_by_forms else None

    @cached_property
    def _uses_openmp(self) -> bool:
        return bool(self.recipe.openmp)

    def _where_openmp_works(self, run: Callable[[], _Result]) -> _Result:
        return where_openmp_works(run) if self._uses_openmp else run()

    def _packed(
        self, inputs: tuple[object, ...], named: dict[str, object]
    ) -> tuple[tuple[object, ...], dict[str, Any]]:
        """The arguments, by name where plain arrays had to be packed."""
        packing = self.arguments.packing
        if not packing.functions:
            return inputs, named
        given = self.arguments.matched(inputs, named)
        for name, function in packing.functions.items():
            if name in given and not isinstance(given[name], PackedArray):
                sizes = {size: given[size] for size in function.params if size in given}
                given[name] = self.pack(name, given[name], **cast(dict[str, int], sizes))
        return (), given

    def _writes_nothing(self, call: PreparedCall) -> bool:
        """Whether all arrays to write are empty; loops over other dimensions could still run for very long."""
        written = (a.name for a in self.function.arguments if isinstance(a, ArrayArgument) and a.is_output)
        return self.shared is not None and not any(call.values[name].size for name in written)


def bound_call(kernel: Kernel, arguments: Mapping[str, Any]) -> Callable[[], object]:
    """`Kernel.bound` of arguments by name, for measurements: plain arrays are packed once, here."""
    return kernel._bound(kernel.arguments.bind(*kernel._packed((), dict(arguments))))


def _verified(run: Callable[[], int | None], verify: Callable[[], None]) -> int | None:
    verify()
    return run()


def unpacked(given: Packed) -> Kernel:
    """A kernel from another process. Raises `ToolchainError` if its library cannot be built here."""
    function, recipe, choice = given.function, given.recipe_here(), given.choice
    if choice is not None:
        shared, own = loaded_versions(recipe, choice.every)
        choice = choice if choice.named and shared else own
        arguments = Arguments(choice.function, given.algorithm, given.verify_values)
        return Kernel(choice.function, recipe, arguments, shared, given.threads, choice=choice)
    arguments = Arguments(
        function, given.algorithm, given.verify_values, None, packing_of(function, recipe.keys, given.verify_values)
    )
    ranks = Ranks(arguments, function.grid) if function.grid else None
    shared = None if recipe.processor.obstacle else load(recipe)
    return Kernel(function, recipe, arguments, shared, given.threads, None, ranks, storage=given.storage)
