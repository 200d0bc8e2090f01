"""Recipes: commands that are applied together or not at all, and their text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Self

from tiramisu_py import Computation, Function, Input, Iter, Target
from tiramisu_py.errors import ArgumentError, CommandError
from tiramisu_py.queries import Command, Statement, as_script, function_of, unused_iterator
from tiramisu_py.recipes.cpu import Cpu


class AppliedCommands(str):
    """The commands that a recipe has applied: as text, Python over the function `f` to be pasted, and as values.

    ::

        made = tm.recipes.matmul(C)
        print(made)                                     # i, j, k, ... = tm.iters("i j k ...")
        g = tm.Function.of(f.algorithm, made.commands)  # another function with this schedule
    """

    commands: tuple[Command, ...]

    def __new__(cls, commands: Iterable[Command], notes: Sequence[str] = ()) -> Self:
        """Commands in order, and `notes`: comments that the text begins with."""
        given = tuple(commands)
        made = super().__new__(cls, "\n".join([*notes, as_script(given)]))
        made.commands = given
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

    def copy_name(self, source: str, ending: str) -> str | None:
        """A name for a copy of a source, as other products have taken ``{source}_{ending}``; None if it is free."""
        usual = f"{source}_{ending}"
        found = unused_iterator(self.function, usual).name
        return None if found == usual else found

    def commands(self, *notes: str) -> AppliedCommands:
        """The commands so far, whose text begins with `notes`."""
        return AppliedCommands(self.function.commands[self._start :], notes)


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
