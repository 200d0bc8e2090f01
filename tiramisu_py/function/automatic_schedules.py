"""The command of a function that chooses all commands: auto_schedule."""

from __future__ import annotations

import importlib
from typing import Any, Protocol

from tiramisu_py.function.applying.scheduled import Scheduled
from tiramisu_py.program.command import Command

#: The room that makes these schedules is above this one: it gives commands as users do.
_ROOM = "tiramisu_py.auto"


class AppliedSchedule(Protocol):
    """An automatic schedule that has been applied: its commands, as values and, with ``str()``, as text."""

    commands: tuple[Command, ...]

    def explain(self) -> str:
        """Why each command was chosen, and what was refused."""

    def undo(self) -> None:
        """Take all commands back."""


class AutomaticSchedules(Scheduled):
    """The choice of a schedule for a whole function."""

    def auto_schedule(
        self, target: Any = None, threads: int | None = None, level: str = "sizes", **options: Any
    ) -> AppliedSchedule:
        """Schedule the function: choose commands for all its computations, prove them, and apply them.

        ::

            f = algorithm()
            schedule = f.auto_schedule()
            print(schedule)                     # the commands, to be pasted and edited
            print(schedule.explain())           # why each was chosen, and what was refused
            kernel = f.compile()
            schedule.undo()                     # takes all of them back

        The commands are those that a user would write, and are proven like them. Computations are put in nests that
        keep values close to where they are read; threads share the outermost loop that dependences allow, the loop with
        contiguous accesses runs in vectors, products are tiled for registers and caches, and time loops keep two levels
        instead of all. What commands or the proof refuse falls back to less, at last to nothing for a nest.

        `target` is the processor: a name as for `compile`, `tm.target(...)`, or None for this machine's, which
        `explain` then describes. With ``threads=1`` no loop is parallel (default: the cpus of this process). Sums of
        floating-point numbers may be rounded in another order, as `check()` says. Computations that have been given
        commands on loops keep them.

        `level` is "structure" (orders, threads, vectors and storage, but no tiles), "sizes" (with tiles, blocks and
        packed copies from the sizes of the processor) or "measure": then the schedule of the best estimates and those
        with one nest in another way are timed with `tm.tune`, whose options follow: ``arguments={...}``, `seconds`,
        `database`, `progress` and those of `compile`. ``cost=`` replaces the model that ranks ways to run one nest by
        the `operations`, vector `accesses`, `lanes`, `chain` and `bytes` of a value; less is better.

        Raises `ArgumentError` for functions on GPUs and ranks, and `DeclarationError` without outputs.
        """
        applied: AppliedSchedule = importlib.import_module(_ROOM).auto_schedule(self, target, threads, level, **options)
        return applied
