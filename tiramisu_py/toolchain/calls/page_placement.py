"""The placement of a kernel's threads and memory on this machine: new arrays, and a report."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tiramisu_py.algorithm.domains.extents_from_arguments import params_of, shape_value
from tiramisu_py.backends.c.first_touch_calls import placed
from tiramisu_py.errors import ArgumentError
from tiramisu_py.ir import Allocate, ArrayArgument, LoopFunction
from tiramisu_py.program.machine.pages import Policy
from tiramisu_py.toolchain.calls.arguments import Arguments, as_size
from tiramisu_py.toolchain.calls.c_function import thread_count
from tiramisu_py.toolchain.calls.communicators import Ranks
from tiramisu_py.toolchain.calls.device_arguments import unified_allocated
from tiramisu_py.toolchain.compilers.cache import open_cache
from tiramisu_py.toolchain.compilers.library import Library, LibraryRecipe
from tiramisu_py.toolchain.machine.first_touch import FirstTouch, Turn, first_touch
from tiramisu_py.toolchain.machine.topology import MemoryNode, allowed_cpus, listed, memory_nodes


class PagePlacement:
    """The threads and the memory of a kernel whose library is loaded."""

    def __init__(self, library: Library, recipe: LibraryRecipe, threads: int | None) -> None:
        self.recipe = recipe
        self.threads = threads
        self.touch = first_touch(library.cache if recipe.processor.machine else open_cache(), recipe.toolchain)

    def new_array(
        self, arguments: Arguments, ranks: Ranks | None, name: str, given: Mapping[str, object], comm: object
    ) -> npt.NDArray[Any]:
        """An array for the argument `name`; raises `ArgumentError` for an unknown name or missing sizes."""
        with thread_count(self.touch.loaded, self.threads):
            return _new_array(arguments, ranks, self.touch, name, given, comm)

    def report(self, function: LoopFunction) -> str:
        """This machine's nodes, the function's threads and their cpus, and its temporaries' memory policies."""
        count = getattr(self.touch.loaded, "omp_get_max_threads", None) if self.recipe.openmp else None
        return _report(function, (self.threads or int(count())) if count else 1, self.touch)


def _new_array(
    arguments: Arguments, ranks: Ranks | None, touch: FirstTouch, name: str, given: Mapping[str, object], comm: object
) -> npt.NDArray[Any]:
    function = arguments.function
    held = arguments.aliases.get(name, name)
    if held not in arguments.arrays:
        raise ArgumentError(
            f"{function.name} has no array {name}: its arrays are {', '.join([*arguments.arrays, *arguments.aliases])}"
        )
    if arguments.arrays[held].strides is not None:
        raise ArgumentError(f"{name} has strides of its own: it is a view of another array; make that one with NumPy")
    if arguments.arrays[held].device is not None:
        raise ArgumentError(f"{name} is in the memory of a GPU: make it with tm.gpu_empty")
    for size in given:
        if size not in function.params:
            known = ", ".join(function.params) or "none"
            raise ArgumentError(f"{function.name} has no parameter {size}; it has {known}")
    sizes = {size: as_size(size, value) for size, value in given.items()}
    local: Arguments | None = arguments
    if ranks is not None:
        local = ranks.on_this_rank(comm, sizes)
    elif comm is not None:
        raise ArgumentError(f"{function.name} does not run on ranks: leave out comm=")
    argument = arguments.arrays[held]
    shape = _shape(name, argument if local is None else local.arrays[held], sizes)
    if local is None:  # this rank has nothing to do
        none = argument.dealt or (0,)
        shape = tuple(0 if axis in none else extent for axis, extent in enumerate(shape))
    if argument.mapped and arguments.device is not None:
        made = unified_allocated(argument, shape, arguments.device)
        made[...] = 0
        return made
    in_turn = function.options.pin is not None and function.options.pin.takes_turns
    turn = ranks.turn(comm) if ranks is not None and in_turn else Turn()
    return touch.empty(name, shape, np.dtype(argument.dtype.numpy), function.options.pin, turn)


def _shape(name: str, argument: ArrayArgument, sizes: Mapping[str, int]) -> tuple[int, ...]:
    for needed in sorted({param for extent in argument.passed_extents for param in params_of(extent)}):
        if needed not in sizes:
            raise ArgumentError(f"the shape of {name} depends on {needed}: give {needed}=")
    return shape_value(argument.passed_extents, sizes)


def _report(function: LoopFunction, threads: int, touch: FirstTouch) -> str:
    nodes = memory_nodes()
    lines = [f"{function.name} on a machine with {len(nodes)} memory node{'s' if len(nodes) > 1 else ''}"]
    lines += [f"  node {node.number}: cpus {listed(node.cpus)}{_size(node)}" for node in nodes]
    lines += [*_threads(function, threads, touch), *_temporaries(function, nodes, touch.policy_fault())]
    return "\n".join(lines)


def _size(node: MemoryNode) -> str:
    return f", {node.bytes / 2**30:.1f} GiB" if node.bytes else ""


def _threads(function: LoopFunction, threads: int, touch: FirstTouch) -> Iterator[str]:
    cpus = allowed_cpus()
    allowed = f"cpu{'s' if len(cpus) > 1 else ''} {listed(cpus)}"
    counted = f"{threads} thread{'s' if threads > 1 else ''}"
    if function.options.pin is None:
        yield f"{counted}, not pinned: the system moves them on {allowed}"
        return
    if function.options.pin.takes_turns:
        yield f"{counted} of each rank, pinned to the node of its number on its machine; {allowed} here"
    else:
        found = touch.cpus(function.options.pin, threads, Turn())
        if isinstance(found, str):
            yield f"{counted}, pinned {function.options.pin}: a call is refused, {found}"
            return
        yield f"{counted}, pinned ({function.options.pin}) to cpu {', '.join(map(str, found))}, in this order"
        if threads > len(set(found)):
            yield f"  {threads} threads share {len(set(found))} of them in turn, each waiting for the others"
    if len(cpus) == 1:
        yield "  this process may run on one cpu: pinning makes no difference here"


_SAID = {
    Policy.LOCAL: "local: each page on the node of the thread that first writes to it",
    Policy.INTERLEAVE: "interleaved: its pages are in turn on all nodes",
}


def _temporaries(function: LoopFunction, nodes: tuple[MemoryNode, ...], fault: int) -> Iterator[str]:
    found = list(placed(function))
    for node in found:
        yield f"{node.buffer} is {_said(node, nodes)}"
    if not found:
        yield "no temporary is placed"
    if len(nodes) == 1:
        yield "this machine has one memory node: where memory is placed makes no difference here"
    elif found and fault:
        yield (
            f"the system refuses memory policies here ({os.strerror(fault)}), as containers do: calls run "
            "without them, and each page is on the node of the thread that first writes to it"
        )


def _said(node: Allocate, nodes: tuple[MemoryNode, ...]) -> str:
    assert node.pages is not None
    if node.pages.policy is not Policy.BIND:
        return _SAID[node.pages.policy]
    missing = node.pages.node not in {known.number for known in nodes}
    return f"bound to node {node.pages.node}" + (", which does not exist: a call is refused" if missing else "")
