"""Commands that compile: build and bench."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from tiramisu_py.algorithm.evaluate.drawn_arguments import arguments
from tiramisu_py.build import Kernel, processor_for
from tiramisu_py.build.toolchains.mpi import mpi4py
from tiramisu_py.console.reading import Found
from tiramisu_py.console.scripts import ScriptError, named_sizes, one_function
from tiramisu_py.function import Function
from tiramisu_py.tuning import Machine


def build(given: Namespace) -> Found:
    """The exported folder of one function."""
    f = one_function(given)
    folder = _compiled(f, given).export(given.output)
    files = sorted(str(path) for path in folder.iterdir())
    return "\n".join(files), {"folder": str(folder), "files": files}, True


def bench(given: Namespace) -> Found:
    """The times of calls with random arrays."""
    f = one_function(given)
    sizes = named_sizes(f, given.sizes)
    kernel = _compiled(f, given, threads=given.threads)
    machine = Machine.here(threads=given.threads)
    try:
        values = {**arguments(f.algorithm, {}, sizes, seed=0), **sizes}
    except MemoryError as error:
        at = " ".join(f"{name}={value}" for name, value in sizes.items())
        raise ScriptError(f"the arrays of {f.name} are too large for this machine at {at}: {error}") from None
    if kernel.ranks is not None:
        values = _own_part(f, values, sizes)
    timing = kernel.time(**values, seconds=given.seconds, machine=machine)
    data = {**timing.as_dict(), "sizes": sizes, "processor": processor_for(given.target, given.compiler).name}
    return str(timing), data, True


def _compiled(f: Function, given: Namespace, **options: Any) -> Kernel:
    return f.compile(target=given.target, compiler=given.compiler, device=given.device, **options)


def _own_part(f: Function, values: dict[str, Any], sizes: dict[str, int]) -> dict[str, Any]:
    """The part of each array that this rank holds."""
    rank = mpi4py().COMM_WORLD.rank
    arrays = [name for name, declared in f.algorithm.inputs.items() if not declared.scalar]
    return {**values, **{name: f.part(name, values[name], rank, **sizes) for name in arrays}}
