"""auto_schedule: commands for every computation of a function, chosen, proven, explained, and taken back on demand."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from numbers import Real
from typing import Any

from tiramisu_py import Function, Memory, Target
from tiramisu_py import target as described
from tiramisu_py.auto.clusters import candidates
from tiramisu_py.auto.model.cost import CostModel, ValueWork
from tiramisu_py.auto.model.offers import Problem
from tiramisu_py.auto.trials import ChosenOffer, measured, proven
from tiramisu_py.errors import ArgumentError, CommandError, DeclarationError
from tiramisu_py.queries import Program, allowed_cpus
from tiramisu_py.recipes import AppliedCommands, Cpu


class Automatic:
    """An automatic schedule that has been applied to a function.

    ``str()`` is the commands as text, to be pasted and edited: Python over the function `f`. `commands` are the same as
    values, for ``tm.Function.of(f.algorithm, commands)``. `explain` says why, `undo` takes all of them back.
    """

    def __init__(
        self, function: Function, start: int, choices: Sequence[ChosenOffer], notes: Sequence[str] = ()
    ) -> None:
        self._function = function
        self._start = start
        self._choices = tuple(choices)
        self._notes = tuple(notes)
        self._scheduled = function.program
        self.commands = function.commands[start:]

    def __str__(self) -> str:
        return str(AppliedCommands(self.commands))

    def __repr__(self) -> str:
        return f"<{len(self.commands)} commands for {self._function.name}>"

    def explain(self) -> str:
        """For each computation: what was chosen, why, its commands, and what was refused before, with the reasons.

        The last line has the arrays that the schedule allocates in memory, if there are any.
        """
        lines = list(self._notes)
        for choice in self._choices:
            lines += _explained(choice)
        made = ", ".join(_allocated(self._scheduled))
        return "\n".join([*lines, *([f"allocates {made}"] if made else [])])

    def undo(self) -> None:
        """Take all these commands back; raises `CommandError` if others have been given since, or some undone."""
        end = self._start + len(self.commands)
        present = self._function.commands[self._start :]
        if present != self.commands:
            rest = f"the automatic schedule of {self._function.name}"
            if len(present) < len(self.commands):
                raise CommandError(
                    f"{rest} has been undone already, or some of it: f.undo() takes back one command more"
                )
            raise CommandError(f"{rest} is not the end of its commands any more: undo those that came later first")
        for _ in range(end - self._start):
            self._function.undo()


def _explained(choice: ChosenOffer) -> Iterable[str]:
    if choice.chosen is None:
        yield f"{choice.anchor}: no commands"
    else:
        yield f"{choice.anchor}: {choice.chosen.what}"
        yield f"  because {choice.chosen.why}"
        yield from (f"    {command}" for command in choice.commands)
    for what, reason in choice.refused:
        yield f"  not {what}: {reason}"


def _allocated(program: Program) -> Iterable[str]:
    """The arrays in memory that are not the caller's: ``u[2, N, N] of float32, in each iteration of t0``."""
    used = {program.storages[each.memory.target].buffer for each in program.storing}
    for buffer in program.buffers.values():
        if buffer.argument or buffer.memory is not Memory.HOST or buffer.name not in used:
            continue
        scope = ", ".join(program.loops[loop].name for loop in buffer.scope)
        where = f" for each iteration of {scope}" if scope else ""
        yield f"{buffer.name}[{', '.join(map(str, buffer.extents))}] of {buffer.dtype}{where}"


LEVELS = ("structure", "sizes", "measure")


def auto_schedule(
    function: Function,
    target: str | Target | Cpu | None = None,
    threads: int | None = None,
    level: str = "sizes",
    cost: CostModel | None = None,
    **options: Any,
) -> Automatic:
    """Schedule all computations of a function; see `Function.auto_schedule`."""
    problem = _problem(function, target, threads, level, cost)
    notes = [_taken(problem.cpu)] if target is None else []
    if level == "measure":
        search = measured(problem, candidates, options)
        found = search.best
        notes = [*search.lines(), *notes]
    elif options:
        raise ArgumentError(
            f"auto_schedule: {', '.join(f'{name}=' for name in options)}: level={level!r} takes target=, threads= and "
            'cost=, for all sizes; level="measure" those of tm.tune too, such as arguments='
        )
    else:
        found = proven(problem, candidates)
    start = len(function.commands)
    for command in found.function.commands[start:]:
        function.apply(command)
    return Automatic(function, start, found.choices, notes)


def _problem(function: Function, target: object, threads: int | None, level: str, cost: object) -> Problem:
    if level not in LEVELS:
        raise ArgumentError(f"auto_schedule: level={level!r}: choose {', '.join(map(repr, LEVELS))}")
    if threads is not None and (isinstance(threads, bool) or not isinstance(threads, int) or threads < 1):
        raise ArgumentError(f"auto_schedule: threads={threads!r}: give a positive integer, or None for all cpus")
    if cost is not None and not callable(cost):
        raise ArgumentError(f"auto_schedule: cost={cost!r}: give a function of the work of a value, such as {_EXAMPLE}")
    program, name = function.program, function.name
    if not program.algorithm.outputs:
        raise DeclarationError(f"{name} has no outputs: say what it returns with {name}.outputs(...)")
    if program.ranks.is_spread or program.ranks.grid or program.ranks.distributions:
        raise ArgumentError(f"auto_schedule: {name} runs on ranks: it makes schedules for the cores of one machine")
    on_gpu = [each.name for each in program.buffers.values() if each.memory not in _HOST]
    if on_gpu:
        raise ArgumentError(
            f"auto_schedule: {', '.join(on_gpu)} of {name}, in the memory of a GPU: it makes schedules for processors"
        )
    tagged = [each.name for each in program.loops.values() if each.is_gpu]
    if tagged:
        raise ArgumentError(
            f"auto_schedule: {name} runs the loops {', '.join(dict.fromkeys(tagged))} on a GPU: it makes schedules for "
            "processors"
        )
    return Problem(
        function,
        _cpu(target),
        threads or len(allowed_cpus()),
        None if cost is None else _checked(cost),
        level != "structure",
    )


def _checked(cost: Callable[[ValueWork], object]) -> CostModel:
    """The user's cost model, whose results are to be numbers."""

    def model(work: ValueWork) -> float:
        found = cost(work)
        if isinstance(found, Real) and not math.isnan(found):
            return float(found)
        raise ArgumentError(
            f"auto_schedule: cost gives {found!r} for {work}: it has to give a number, of which less is better"
        )

    return model


_EXAMPLE = "lambda work: work.operations / work.lanes + work.bytes"


#: Memories of the host.
_HOST = (Memory.HOST, Memory.REGISTER)


def _taken(cpu: Cpu) -> str:
    """The processor that was taken since none was named."""
    return (
        f"for {described().name}, this machine's processor: vectors of {cpu.vector_bytes} bytes, {cpu.registers} "
        f"registers, caches of {cpu.first >> 10} and {cpu.second >> 10} KiB"
    )


def _cpu(target: object) -> Cpu:
    if isinstance(target, Cpu):
        return target
    if target is None or isinstance(target, str):
        if isinstance(target, str) and target.lower().startswith(("gpu", "cuda", "sm_", "nvidia")):
            raise ArgumentError(
                f"auto_schedule: target={target!r} is a GPU: it makes schedules for processors; give the name of one, "
                "as for compile, or None for this machine"
            )
        return Cpu.here(target)
    if isinstance(target, Target):
        return Cpu.of(target)
    raise ArgumentError(f"auto_schedule: target={target!r}: give the name of a processor, tm.target() or None")
