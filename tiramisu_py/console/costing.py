"""Commands that set a schedule beside a machine: cost and bench."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

from tiramisu_py.algorithm.evaluate.drawn_arguments import arguments
from tiramisu_py.console.building import compiled
from tiramisu_py.console.reading import Found
from tiramisu_py.console.scripts import ScriptError, named_sizes, one_function
from tiramisu_py.function import Function
from tiramisu_py.toolchain import processor_for
from tiramisu_py.toolchain.compilers.mpi import mpi4py
from tiramisu_py.tuning import Machine
from tiramisu_py.view import ScheduleCost


def cost(given: Namespace) -> Found:
    """The cost of one function at sizes: operations, bytes of each level of memory, lanes, messages, kernels."""
    f = one_function(given)
    found = f.cost(**named_sizes(f, given.sizes))
    machine = Machine.load(given.machine) if given.machine else None
    if given.roofline:
        machine = machine or Machine.here()
        _draw(found, machine, given.roofline)
    data = found.as_dict(machine)
    if given.gpu:
        data["occupancy"] = {kernel.name: str(kernel.occupancy(given.gpu)) for kernel in found.kernels}
    return found.report(machine, given.gpu), data, True


def bench(given: Namespace) -> Found:
    """The times of calls with random arrays."""
    f = one_function(given)
    sizes = named_sizes(f, given.sizes)
    kernel = compiled(f, given, threads=given.threads)
    machine = Machine.load(given.machine) if given.machine else Machine.here(threads=given.threads)
    try:
        values = {**arguments(f.algorithm, {}, sizes, seed=0), **sizes}
    except MemoryError as error:
        at = " ".join(f"{name}={value}" for name, value in sizes.items())
        raise ScriptError(f"the arrays of {f.name} are too large for this machine at {at}: {error}") from None
    if kernel.ranks is not None:
        values = _own_part(f, values, sizes)
    timing = kernel.time(**values, seconds=given.seconds, machine=machine)
    if given.roofline:
        _draw(f.cost(**sizes), machine, given.roofline, timing.minimum)
    data = {**timing.as_dict(), "sizes": sizes, "processor": processor_for(given.target, given.compiler).name}
    return str(timing), data, True


def _draw(found: ScheduleCost, machine: Machine, path: str, seconds: float | None = None) -> None:
    try:
        Path(path).write_text(found.roofline(machine, seconds), encoding="utf-8")
    except OSError as error:
        raise ScriptError(f"{path} cannot be written: {error}") from error


def _own_part(f: Function, values: dict[str, Any], sizes: dict[str, int]) -> dict[str, Any]:
    """The part of each array that this rank holds."""
    rank = mpi4py().COMM_WORLD.rank
    arrays = [name for name, declared in f.algorithm.inputs.items() if not declared.scalar]
    return {**values, **{name: f.part(name, values[name], rank, **sizes) for name in arrays}}
