"""The versions of a kernel for processors: in which order, under which names, and which one runs here."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tiramisu_py.backends import ProcessorVersion
from tiramisu_py.backends.amx.tiles_part import instruction_sets_of
from tiramisu_py.errors import ArgumentError, ToolchainError
from tiramisu_py.ir import LoopFunction
from tiramisu_py.records import dataclass
from tiramisu_py.toolchain.compilers.c_compiler import Toolchain
from tiramisu_py.toolchain.compilers.cache import Cache, open_cache
from tiramisu_py.toolchain.compilers.library import Library, LibraryRecipe, load
from tiramisu_py.toolchain.compilers.processor import (
    Processor,
    host_name,
    instruction_sets,
    lacking,
    needed_instruction_sets,
    resolve_processor,
)


@dataclass(frozen=True, eq=False)
class VersionChoice:
    """The versions of a kernel, the best one first, and the one that runs; `named` if the user has named it."""

    every: tuple[ProcessorVersion, ...]
    chosen: ProcessorVersion
    named: bool = False

    @property
    def function(self) -> LoopFunction:
        """The version that runs, by the name that the user knows."""
        function = self.chosen.function
        return replace(function, name=function.title, labels=replace(function.labels, known_as=""))

    @property
    def processors(self) -> tuple[str, ...]:
        """The processors that the versions are for."""
        return tuple(each.processor for each in self.every)

    def using(self, processor: object, recipe: LibraryRecipe) -> VersionChoice:
        """These with another version chosen. Raises `ArgumentError` if there is none, or this machine cannot run it."""
        found = next((each for each in self.every if each.processor == processor), None)
        if found is None:
            known = ", ".join(self.processors)
            raise ArgumentError(f"{recipe.name} has no version for {processor!r}: its versions are for {known}")
        obstacle = _obstacle(found, recipe)
        if obstacle:
            raise ArgumentError(f"{recipe.name} for {processor} cannot run here: {obstacle}")
        return VersionChoice(self.every, found, True)


def _obstacle(version: ProcessorVersion, recipe: LibraryRecipe) -> str:
    """The reason why this machine cannot run a version; empty if it can."""
    cache = open_cache()
    has = instruction_sets(cache, recipe.toolchain, resolve_processor(cache, recipe.toolchain).flags)
    return lacking([name for name in version.needs if name not in has], host_name() or "")


def require_instruction_sets(function: LoopFunction, cache: Cache, toolchain: Toolchain, processor: Processor) -> None:
    """Refuse a processor that does not have the instructions which the code names. Raises `ToolchainError`."""
    needed = instruction_sets_of(function)
    has = instruction_sets(cache, toolchain, processor.flags) if needed else frozenset()
    lacks = [name for name in needed if name not in has]
    if lacks:
        raise ToolchainError(
            f'{function.title} is tensorized with "amx", and {processor.name} has no {", ".join(lacks)}: compile it '
            'for a processor that does, target="sapphirerapids", or leave tensorize out'
        )


def versions_of(
    name: str, functions: Mapping[str, LoopFunction], cache: Cache, toolchain: Toolchain
) -> tuple[ProcessorVersion, ...]:
    """The versions of a function by their processors' names, the best one first. Raises `ArgumentError` for two that no
    program could tell apart, and `ToolchainError`.
    """
    made = []
    for (processor, function), own in zip(functions.items(), _c_names(name, list(functions)), strict=True):
        known = resolve_processor(cache, toolchain, processor)
        require_instruction_sets(function, cache, toolchain, known)
        needs = (*needed_instruction_sets(cache, toolchain, known), *instruction_sets_of(function))
        made.append(ProcessorVersion(_called(function, own), processor, needs))
    return tuple(_ranked(made))


def _called(function: LoopFunction, own: str) -> LoopFunction:
    """A function by its name in C, and so those for some sizes: their files have their names."""
    sized = tuple(
        replace(each, function=replace(each.function, name=own + each.function.name.removeprefix(function.name)))
        for each in function.companions.versions
    )
    return replace(
        function,
        name=own,
        labels=replace(function.labels, known_as=function.name),
        companions=replace(function.companions, versions=sized),
    )


def _c_names(name: str, processors: Sequence[str]) -> list[str]:
    """The names of the C functions of versions: ``blur_x86_64_v3``."""
    found: list[str] = []
    for processor in processors:
        made = f"{name}_" + "".join(letter if letter.isalnum() else "_" for letter in processor)
        found.append(f"{made}_{len(found)}" if made in found else made)
    return found


def _ranked(versions: Sequence[ProcessorVersion]) -> list[ProcessorVersion]:
    """The versions, each before those that need less; others as they were given."""
    left, found = list(versions), list[ProcessorVersion]()
    while left:
        best = next(one for one in left if not any({*one.needs} < {*other.needs} for other in left))
        left.remove(best)
        for other in left:
            if {*other.needs} == {*best.needs}:
                raise ArgumentError(
                    f"{best.processor} and {other.processor} have the same instruction sets, by which a version is "
                    "chosen: leave out one of them"
                )
        found.append(best)
    return found


def loaded_versions(
    recipe: LibraryRecipe, versions: Sequence[ProcessorVersion], cache: Cache | None = None
) -> tuple[Library | None, VersionChoice]:
    """The library of a recipe, with the version that it chooses here; no library where it can run none, and then the
    most general version. Raises `ToolchainError`.
    """
    none = None, VersionChoice(tuple(versions), versions[-1])
    if recipe.processor.obstacle:
        return none
    library = load(recipe, cache)
    ask = library.loaded[f"{recipe.name}_version"]
    ask.restype, ask.argtypes = ctypes.c_char_p, []
    said = ask()
    able = [*versions][[each.processor for each in versions].index(said.decode()) :] if said is not None else []
    if host_name() is not None:  # of which the library, which asks the machine, does not know
        able = [each for each in able if not _obstacle(each, recipe)]
    return (library, VersionChoice(tuple(versions), able[0])) if able else none
