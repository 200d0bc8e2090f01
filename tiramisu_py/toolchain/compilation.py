"""From C sources to a callable kernel: compiled, or taken from the cache, and loaded."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter

from tiramisu_py.algorithm.declarations import Algorithm
from tiramisu_py.backends import emit_versions
from tiramisu_py.backends.c import Emitted
from tiramisu_py.backends.cuda.signature import KernelSignature
from tiramisu_py.errors import ArgumentError, ToolchainError
from tiramisu_py.ir import LoopFunction, Mma
from tiramisu_py.ir.rewriting import of_kind
from tiramisu_py.program.machine.tensor_instructions import capability_of
from tiramisu_py.toolchain.calls.arguments import Arguments
from tiramisu_py.toolchain.calls.communicators import Ranks
from tiramisu_py.toolchain.calls.packed_arrays import packing_of
from tiramisu_py.toolchain.calls.storage import storage_of
from tiramisu_py.toolchain.compilers.c_compiler import known_toolchain
from tiramisu_py.toolchain.compilers.cache import Cache, open_cache
from tiramisu_py.toolchain.compilers.externs import refusal
from tiramisu_py.toolchain.compilers.flags import fast_flags
from tiramisu_py.toolchain.compilers.library import Library, LibraryRecipe, load, prepare
from tiramisu_py.toolchain.compilers.mpi import find_mpi
from tiramisu_py.toolchain.compilers.processor import Processor, least_processor, resolve_processor
from tiramisu_py.toolchain.gpu.gpu_support import GpuOptions, GpuPart, compile_gpu_part
from tiramisu_py.toolchain.kernel import Kernel
from tiramisu_py.toolchain.processor_versions import loaded_versions, require_instruction_sets, versions_of

_MOST_THREADS = 256


def processor_for(target: str | None = None, compiler: str | None = None) -> Processor:
    """The processor that `compile_function` would compile for; raises `ToolchainError`."""
    cache = open_cache()
    return resolve_processor(cache, known_toolchain(cache, compiler), target)


def compile_function(
    function: LoopFunction,
    sources: Emitted,
    algorithm: Algorithm,
    *,
    target: str | None = None,
    compiler: str | None = None,
    fast: Collection[str] = (),
    sanitize: Collection[str] | bool = (),
    threads: int | None = None,
    verify_values: bool = True,
    kernels: Sequence[KernelSignature] = (),
    device: str | None = None,
    seed: int | None = None,
    timing: str | None = None,
    architectures: Sequence[object] | None = None,
    storage: object = None,
) -> Kernel:
    """Compiles the C `sources` of `function` and loads the library, or takes it from the cache.

    `target` names a processor (default: this one), `compiler` a C compiler (default: the environment's CC, gcc, clang
    or cc). `fast` names the relaxations of strict floating point: contract, reassociate, reciprocal. `threads` is the
    number of OpenMP threads (default: OpenMP's own choice). `verify_values=False` trusts the declared facts of inputs.

    If the sources use GPUs, `kernels` are in ``<name>.cu`` (``backends.signatures(function)``) and run on `device`
    ("gpu", "gpu:1" or "simulator"), compiled for `architectures` (default: those of the GPUs here, or else the usual
    ones). `seed`, `timing` and ``sanitize=True`` (detect errors of kernels) are for the simulator. `storage` is the
    folder of a function that keeps values in files, or a simulated disk, for which `seed` and `timing` are, too.

    Raises `ToolchainError` or `ArgumentError`.
    """
    _require_thread_count(threads)
    stored = storage_of(function, storage, seed, timing)
    both = sources.uses_gpu or not (stored and stored.simulated)
    options = GpuOptions(device, sanitize is True, seed if both else None, timing if both else None, architectures)
    sanitizers = () if isinstance(sanitize, bool) else sanitize
    fast_flags(fast)
    cache = open_cache()
    gpu = _gpu_part(cache, function, sources, kernels, options, fast)
    recipe = prepare(
        function.name, sources, cache, target=target, compiler=compiler, fast=fast, sanitize=sanitizers,
        embedded=gpu.files if gpu else None, mpi=find_mpi(cache) if function.grid else None,
    )  # fmt: skip
    _require_native_parts(recipe, gpu)
    require_instruction_sets(function, cache, recipe.toolchain, recipe.processor)
    shared = None if recipe.processor.obstacle else _loaded(recipe, cache, function)
    packing = packing_of(function, recipe.keys, verify_values)
    arguments = Arguments(function, algorithm, verify_values, gpu.device if gpu else None, packing)
    ranks = Ranks(arguments, function.grid) if function.grid else None
    if stored and shared:
        stored.require_usable(function.name, shared)
    kernel = Kernel(function, recipe, arguments, shared, threads, gpu, ranks, storage=stored)
    _require_symbols(kernel)
    return kernel


def compile_versions_of(
    name: str,
    functions: Mapping[str, LoopFunction],
    algorithm: Algorithm,
    *,
    compiler: str | None = None,
    fast: Collection[str] = (),
    sanitize: Collection[str] = (),
    threads: int | None = None,
    verify_values: bool = True,
) -> Kernel:
    """Compiles the versions of the function `name`, listed by their processors, to one library, and loads it.

    They have the same parameters and arguments; see `compile_function` for the options. Raises `ToolchainError` or
    `ArgumentError`.
    """
    _require_thread_count(threads)
    fast_flags(fast)
    cache = open_cache()
    toolchain = known_toolchain(cache, compiler)
    versions = versions_of(name, functions, cache, toolchain)
    least = least_processor(cache, toolchain).name
    own = {f"{each.function.name}.c": resolve_processor(cache, toolchain, each.processor) for each in versions}
    sources = emit_versions(name, versions)
    made = prepare(name, sources, cache, target=least, compiler=compiler, fast=fast, sanitize=sanitize)
    recipe = replace(made, versions=own)
    try:
        shared, choice = loaded_versions(recipe, versions, cache)
    except ToolchainError as error:
        raise refusal(error, recipe, versions[-1].function.externs) from None
    arguments = Arguments(choice.function, algorithm, verify_values)
    return Kernel(choice.function, recipe, arguments, shared, threads, choice=choice)


def _loaded(recipe: LibraryRecipe, cache: Cache, function: LoopFunction) -> Library:
    """The library; if an external C function prevents its build, the error says so."""
    try:
        return load(recipe, cache)
    except ToolchainError as error:
        if not function.externs:
            raise
        raise refusal(error, recipe, function.externs) from None


def _gpu_part(
    cache: Cache,
    function: LoopFunction,
    sources: Emitted,
    kernels: Sequence[KernelSignature],
    options: GpuOptions,
    fast: Collection[str],
) -> GpuPart | None:
    if not sources.uses_gpu:
        options.require_unused(function.name)
        return None
    if len(kernels) < len(function.gpus.kernels):
        raise ArgumentError(
            f"{function.name} launches {', '.join(each.name for each in function.gpus.kernels)}, and kernels= has "
            f"{len(kernels)} of {len(function.gpus.kernels)}: give kernels=tiramisu_py.backends.signatures(function)"
        )
    products = [node for kernel in function.gpus.kernels for node in of_kind(kernel.body, Mma)]
    least, of = max(
        ((capability_of(node.instruction), node) for node in products), key=itemgetter(0), default=(0, None)
    )
    why = "" if of is None else f'{of.statement} is tensorized with "{of.instruction}"'
    return compile_gpu_part(
        cache, function.name, sources, kernels, function.gpus.devices, options, fast, function.gpus.kind, least, why
    )


def _require_native_parts(recipe: LibraryRecipe, gpu: GpuPart | None) -> None:
    """Refuse the simulator and MPI of this machine for code for another architecture. Raises `ToolchainError`."""
    machine = recipe.processor.machine
    if machine and gpu and gpu.simulator:
        fault = f"{recipe.name} is compiled for {machine}, but the simulator runs on this machine"
        raise ToolchainError(f'{fault}: give device="gpu"')
    if machine and recipe.mpi:
        fault = f"{recipe.name} is compiled for {machine}, but the MPI here is not"
        raise ToolchainError(f"{fault}: export it without compiler=, and build it there with: make clean all")


def _require_thread_count(threads: object) -> None:
    most = max(_MOST_THREADS, 4 * (os.cpu_count() or 1))  # OpenMP ends a process for which it cannot make threads
    if threads is None or (type(threads) is int and 1 <= threads <= most):
        return
    raise ArgumentError(f"threads={threads!r} is not a number of threads: an integer from 1 to {most}, or None")


def _require_symbols(kernel: Kernel) -> None:
    if kernel.shared is None:
        return
    own = ["", "_last_error", *(["_use_device"] if kernel.gpu else [])]
    packs = [pack.name for pack in kernel.function.companions.packs]
    for symbol in [*(kernel.name + ending for ending in own), *packs]:
        if not hasattr(kernel.shared.loaded, symbol):
            raise ToolchainError(f"the sources of {kernel.name} do not define {symbol}")
