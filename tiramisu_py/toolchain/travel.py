"""Kernels in other processes: the pickled form of a kernel, and its restoration.

A loaded library is not pickled, but its recipe and the data that a call checks. The other process finds the library in
the cache, or builds it again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import islpy as isl

from tiramisu_py.algorithm.declarations import Algorithm, Input
from tiramisu_py.algorithm.domains.domain import parse_context
from tiramisu_py.backends.c.first_touch_calls import placed
from tiramisu_py.errors import KernelError, ToolchainError
from tiramisu_py.ir import Block, LoopFunction
from tiramisu_py.records import dataclass
from tiramisu_py.toolchain.calls.storage import StoragePart
from tiramisu_py.toolchain.compilers.cache import open_cache
from tiramisu_py.toolchain.compilers.library import LibraryRecipe
from tiramisu_py.toolchain.compilers.processor import resolve_processor
from tiramisu_py.toolchain.processor_versions import VersionChoice

if TYPE_CHECKING:
    from tiramisu_py.toolchain.kernel import Kernel


@dataclass(frozen=True, eq=False)
class Packed:
    """The pickled form of a kernel: the data of `inputs` and `function` that calls check, and its library's recipe."""

    function: LoopFunction
    recipe: LibraryRecipe
    inputs: tuple[Input, ...]
    outputs: tuple[str, ...]
    verify_values: bool
    threads: int | None
    choice: VersionChoice | None
    storage: StoragePart | None = None

    @property
    def algorithm(self) -> Algorithm:
        """The part of the algorithm that calls check."""
        context, name, params = isl.Context(), self.function.name, self.function.params
        everywhere = parse_context(context, params, None)
        inputs = {declared.name: declared for declared in self.inputs}
        return Algorithm(name, context, params, everywhere, inputs, {}, self.outputs)

    def recipe_here(self) -> LibraryRecipe:
        """The recipe for the receiving machine; raises `ToolchainError` if it does not fit."""
        recipe, processor = self.recipe, self.recipe.processor
        if processor.machine:
            return recipe
        here = resolve_processor(open_cache(), recipe.toolchain, None if processor.is_local else processor.name)
        if here.flags != processor.flags:
            raise ToolchainError(
                f"{recipe.name} was compiled for {processor.name}, its own machine's processor, but "
                f"this machine has {here.name}: compile it with target= for a processor that both are, such as "
                "'x86-64-v3'"
            )
        return replace(recipe, processor=here)


def packed(kernel: Kernel) -> Packed:
    """The pickled form of a kernel. Raises `KernelError` for one that uses GPUs."""
    if kernel.gpu is not None:
        raise KernelError(
            f"{kernel.name} uses {kernel.gpu.device}, whose kernels are loaded into this process and cannot be "
            f"pickled: compile {kernel.name} in the process that calls it (from the cache)"
        )
    function = _checked_by_calls(kernel.function)
    known = kernel.arguments
    inputs = tuple(replace(declared, location=None) for declared in known.algorithm.inputs.values())
    outputs = known.algorithm.output_arrays
    return Packed(
        function, kernel.recipe, inputs, outputs, known.verify_values, kernel.threads, _light(kernel.choice),
        kernel.storage,
    )  # fmt: skip


def _checked_by_calls(function: LoopFunction) -> LoopFunction:
    """A function without what calls do not look at."""
    body = Block(tuple(replace(node, body=Block(())) for node in placed(function)))
    packs = tuple(
        replace(pack, body=Block(()), labels=replace(pack.labels, documentation=()))
        for pack in function.companions.packs
    )
    return replace(
        function,
        body=body,
        externs=(),
        companions=replace(function.companions, versions=(), packs=packs),
        labels=replace(function.labels, documentation=()),
    )


def _light(choice: VersionChoice | None) -> VersionChoice | None:
    """The versions of a kernel without what calls do not look at."""
    if choice is None:
        return None
    every = tuple(replace(each, function=_checked_by_calls(each.function)) for each in choice.every)
    return replace(choice, every=every, chosen=every[choice.every.index(choice.chosen)])
