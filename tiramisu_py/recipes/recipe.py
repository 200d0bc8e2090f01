"""Recipes: commands that are applied together or not at all, and their text; sizes by name; sums with their readers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Self, TypeVar

from tiramisu_py import Computation, Function, GpuThreads, Input, Iter, Reduction, Target
from tiramisu_py.errors import ArgumentError, CommandError
from tiramisu_py.queries import (
    Command,
    Role,
    Statement,
    accesses,
    as_script,
    function_of,
    readers_of,
    sources_of,
    unused_iterator,
)
from tiramisu_py.recipes.cpu import Cpu

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Sizes = TypeVar("Sizes", bound="DataclassInstance")


class AppliedCommands(str):
    """The commands that a recipe has applied: as text, Python over the function `f` to be pasted, and as values.

    ::

        made = tm.recipes.matmul(C)
        print(made)                                     # i, j, k, ... = tm.iters("i j k ...")
        g = tm.Function.of(f.algorithm, made.commands)  # another function with this schedule
    """

    commands: tuple[Command, ...]
    #: How loops run now, in words, where a recipe says so.
    loops: tuple[str, ...]

    def __new__(cls, commands: Iterable[Command], notes: Sequence[str] = (), loops: Sequence[str] = ()) -> Self:
        """Commands in order, `notes`: comments that the text begins with, and `loops` in words."""
        given = tuple(commands)
        made = super().__new__(cls, "\n".join([*notes, as_script(given)]))
        made.commands, made.loops = given, tuple(loops)
        return made


class Recipe:
    """Computations of one function, and the commands that are applied to them: the base of all recipes.

    ::

        def in_rows(stage, *, lanes=8):
            recipe = tm.recipes.Recipe("in_rows", [stage])
            row, column = recipe.loops(stage)
            with recipe.together():                     # all of the commands, or none if one is refused
                stage.parallelize(row)
                stage.vectorize(column, lanes, remainder="mask")
            return recipe.commands()

    `name` is what errors begin with. Raises `ArgumentError` for what are no computations of one function.
    """

    def __init__(self, name: str, stages: Sequence[object]) -> None:
        if not stages:
            raise ArgumentError(f"{name} needs at least one computation")
        for stage in stages:
            if not isinstance(stage, Computation):
                raise ArgumentError(f"{name} takes computations, and {stage!r} is not one{_instead(name, stage)}")
        self.name = name
        self.stages = [stage for stage in stages if isinstance(stage, Computation)]
        self.function = function_of(self.stages[0])
        for stage in self.stages:
            if function_of(stage) is not self.function:
                raise ArgumentError(f"{name}: {stage} is not a computation of {self.function.name}")
        self._start = len(self.function.commands)
        self._fresh: list[str] = []

    def together(self) -> AbstractContextManager[None]:
        """A context whose commands are all applied, or none of them if one is refused."""
        return self.function.all_or_nothing()

    def tried(self, apply: Callable[[], None]) -> bool:
        """Whether a part of a recipe can be applied; if one of its commands is refused, none of them is."""
        named = len(self._fresh)
        try:
            with self.together():
                apply()
        except CommandError:
            del self._fresh[named:]
            return False
        return True

    def statement(self, stage: Computation) -> Statement:
        """The statement of a computation that has only one; raises `ArgumentError` for others."""
        found = self.function.program.statements_of(stage.name)
        if len(found) != 1:
            raise ArgumentError(
                f"{self.name}: {stage} has {len(found)} statements: it takes computations of one statement, "
                "before they are cut, and no reductions"
            )
        return found[0]

    def loops(self, stage: Computation) -> list[Iter]:
        """The iterators of a computation's loops, outermost first."""
        return [Iter(name) for name in self.function.program.loop_names(self.statement(stage))]

    def fresh(self, name: str) -> Iter:
        """An iterator with this name, or with a similar one if the name is taken."""
        found = unused_iterator(self.function, name, self._fresh)
        self._fresh.append(found.name)
        return found

    def remainder(self, cpu: Cpu) -> str:
        """How the last iterations of the stages' whole rows run on a processor, as `vectorize` takes it.

        ``"mask"`` where masks are cheap for all elements that are loaded or stored; elsewhere ``"overlap"``, a vector
        that ends with the row, if values may be computed twice.
        """
        algorithm = self.function.algorithm
        read = {source for stage in self.stages for source in sources_of(algorithm.computations[stage.name])}
        types = {each.name: each.dtype for each in algorithm.inputs.values() if not each.scalar}
        types |= {each.name: each.dtype for each in algorithm.computations.values()}
        elements = [stage.dtype.bytes for stage in self.stages] + [types[name].bytes for name in read if name in types]
        cheap = cpu.costs.remainder(min(elements)) == "mask"
        return "mask" if cheap or not all(map(self._runs_twice, self.stages)) else "overlap"

    def _runs_twice(self, stage: Computation) -> bool:
        """Whether values may be computed again: what they are computed from is still there.

        It is where only the stages are in the loops, none reads its own values, and the user has not chosen where they
        are, which may be where those are that they are computed from.
        """
        program, declared = self.function.program, self.function.algorithm.computations[stage.name]
        statements = program.statements_of(stage.name)
        inside = {other.source for each in statements for loop in each.loops for other in program.with_this_loop(loop)}
        alone = len(statements) == 1 and inside <= {each.name for each in self.stages}
        recurs = bool(declared.group) or stage.name in sources_of(declared)
        return alone and not recurs and not program.storages[stage.name].chosen

    def copy_name(self, source: str, ending: str) -> str | None:
        """A name for a copy of a source, as other products have taken ``{source}_{ending}``; None if it is free."""
        usual = f"{source}_{ending}"
        found = unused_iterator(self.function, usual).name
        return None if found == usual else found

    def commands(self, *notes: str, loops: Sequence[str] = ()) -> AppliedCommands:
        """The commands so far, whose text begins with `notes`; `loops` as they run now, in words."""
        return AppliedCommands(self.function.commands[self._start :], notes, loops)


def _instead(recipe: str, given: object) -> str:
    """Advice for an argument that is not a computation."""
    if isinstance(given, list | tuple):
        return f": give them one by one, {recipe}({', '.join(map(repr, given))})"
    if isinstance(given, Input):
        return ": leave inputs out, the recipe takes them from what the computations read"
    if isinstance(given, Function):
        return f": give it those of {given.name}, in the order in which they read each other"
    return ""


def processor(recipe: str, cpu: object) -> Cpu:
    """The processor of a recipe: the given one, or that of its name, or this machine's."""
    if cpu is None or isinstance(cpu, str):
        return Cpu.here(target=cpu)
    if isinstance(cpu, Target):
        return Cpu.of(cpu)
    if not isinstance(cpu, Cpu):
        raise ArgumentError(
            f"{recipe}: cpu={cpu!r}: give the name of a processor, tm.target() or a tm.recipes.Cpu, such as "
            "tm.recipes.Cpu.here()"
        )
    return cpu


def checked_gpu(recipe: str, on: object) -> GpuThreads:
    """The GPU and the operation sequence of a recipe, which chooses the threads; raises `ArgumentError`."""
    if not isinstance(on, GpuThreads):
        raise ArgumentError(f"{recipe}: on={on!r} is no GPU: give tm.gpu(), or leave it out for cores")
    if on != GpuThreads(on.device, stream=on.stream):
        repair = "tm.gpu(device, stream=...), and sizes="
        raise ArgumentError(f"{recipe}: on={on!r}: it chooses the threads itself: give {repair}")
    return on


def with_sizes(
    sizes: Sizes,
    recipe: str,
    given: Mapping[str, int],
    *,
    least: Mapping[str, int] | None = None,
    fixed: str = "",
) -> Sizes:
    """The sizes, those given instead, but for a `fixed` one; each is at least 1, or what `least` says.

    Raises `ArgumentError`.
    """
    known = [each.name for each in fields(sizes) if each.name != fixed]
    example = ", ".join(f"{name!r}: {getattr(sizes, name)}" for name in known[:2])
    if not isinstance(given, Mapping):
        raise ArgumentError(f"{recipe}: sizes is {given!r}: give sizes by name, {{{example}}}")
    for name, value in given.items():
        if name not in known:
            raise ArgumentError(f"{recipe}: there is no size {name!r} here: there are {', '.join(known)}")
        start = (least or {}).get(name, 1)
        if isinstance(value, bool) or not isinstance(value, int) or value < start:
            raise ArgumentError(f"{recipe}: {name} is {value!r}: give an integer from {start} on")
    return replace(sizes, **given)


def sums_of(recipe: Recipe, result: Computation) -> Reduction:
    """The sums that a computation reads, only at its own iterators; raises `ArgumentError` for other computations."""
    algorithm, name = recipe.function.algorithm, recipe.name
    if isinstance(result, Reduction):
        raise ArgumentError(
            f"{name}: {result} is the sum itself: give the computation that reads it, which adds a bias, say, or "
            "copies it"
        )
    declared = algorithm.computations[result.name]
    reads = [access for access in accesses(declared.expr) if isinstance(recipe.function[access.source], Reduction)]
    own = tuple(Iter(each).key() for each in declared.iterators)
    if not reads or any(access.source != reads[0].source for access in reads):
        raise ArgumentError(f"{name}: {result} reads {len(reads)} sums: it takes a computation that reads one")
    source = reads[0].source
    for access in reads:
        if tuple(index.key() for index in access.indices) != own:
            raise ArgumentError(f"{name}: {result} reads {access}: it takes sums read at {result}'s own iterators")
    if len(readers_of(algorithm, source)) > 1 or source in algorithm.outputs:
        raise ArgumentError(f"{name}: {source} is not only read by {result}: it keeps the sums for {result} alone")
    total = recipe.function[source]
    assert isinstance(total, Reduction)
    if algorithm.computations[source].iterators != declared.iterators:
        raise ArgumentError(f"{name}: {result} and {source} have other iterators: declare both with the same")
    return total


def untouched(recipe: Recipe, given: Computation, *, any_order: bool = False) -> None:
    """Refuse a computation that is scheduled already; its loops may be in `any_order`, as after `gather`."""
    program = recipe.function.program
    declared = program.algorithm.computations[given.name]
    expected = {Role.VALUE: declared.iterators}
    if isinstance(given, Reduction):
        expected = {Role.INIT: declared.iterators, Role.UPDATE: declared.point_iterators}
    statements = program.statements_of(given.name)
    found = {s.role: program.loop_names(s) for s in statements}
    if any_order:
        found, expected = ({role: tuple(sorted(each)) for role, each in own.items()} for own in (found, expected))
    if len(statements) != len(expected) or found != expected:
        raise ArgumentError(f"{recipe.name}: {given} has been scheduled already: give the recipe before other commands")
