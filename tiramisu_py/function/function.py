"""The public entry: an algorithm, its schedule, and the operations on them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from tiramisu_py.algorithm.expressions import Iter, Param
from tiramisu_py.algorithm.misuse import NameTuple
from tiramisu_py.algorithm.names import check_name
from tiramisu_py.algorithm.words.stages import ForeignFunction
from tiramisu_py.errors import DeclarationError, TiramisuError, UnknownNameError
from tiramisu_py.function.applying.own_calls import unknown_command
from tiramisu_py.function.applying.public_commands import function_command
from tiramisu_py.function.arrays import ArrayDeclarations
from tiramisu_py.function.automatic_schedules import AutomaticSchedules
from tiramisu_py.function.costs import Costs
from tiramisu_py.function.declaring_runs import RunDeclarations
from tiramisu_py.function.handles.bands import apply_skew_for, nest_of
from tiramisu_py.function.handles.computations import Computation, Input, Part, Reduction, Selection
from tiramisu_py.function.handles.exchange_handles import Exchange, Half
from tiramisu_py.function.handles.old_words import OldLooks
from tiramisu_py.function.handles.operations import Barrier, Transfer, Wait
from tiramisu_py.function.handles.segments import InverseRuns, Segments
from tiramisu_py.function.handles.several import Several, chosen
from tiramisu_py.function.on_ranks import OnRanks
from tiramisu_py.function.saving.files import damaged, read, written
from tiramisu_py.function.transfer_commands import TransferCommands
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role
from tiramisu_py.public_calls import own_call, own_class
from tiramisu_py.schedule.command_arguments import loop_name
from tiramisu_py.schedule.devices.place_waits import PlaceBarrier
from tiramisu_py.schedule.devices.set_gpu_target import SetGpuTarget
from tiramisu_py.schedule.instances.remove import Remove
from tiramisu_py.schedule.loops.bands import Band
from tiramisu_py.schedule.loops.order import InOrder
from tiramisu_py.schedule.loops.wavefronts import Goal
from tiramisu_py.schedule.ranks import exchange as messages
from tiramisu_py.schedule.ranks.declare_blocks import DeclareBlocks
from tiramisu_py.schedule.specialize import Specialize


def _barrier(f: Function, made: PlaceBarrier, before: Program) -> Barrier:
    return Barrier(f, "", made.made(before))


@own_class
class Function(RunDeclarations, ArrayDeclarations, TransferCommands, OnRanks, Costs, OldLooks, AutomaticSchedules):
    """An algorithm over symbolic sizes, and the schedule that says how it runs.

    ::

        R, C = tm.params("R C")
        r, c = tm.iters("r c")
        f = tm.Function("twice", params=[R, C], assume="R >= 1")
        a = f.input("a", tm.float32, [R, C])
        b = f.computation("b", {r: R, c: C}, 2 * a[r, c])
        f.outputs(b)
        kernel = f.compile()

    `params` are symbolic sizes, at least 0; `assume` is a further condition on them (isl text or an expression),
    checked when the compiled function is called. Raises `DeclarationError` for names that C does not allow, and for
    duplicates.
    """

    order = function_command(InOrder.called)
    barrier = function_command(PlaceBarrier, gives=_barrier)
    remove = function_command(Remove)
    specialize = function_command(Specialize.called)
    gpu_target = function_command(SetGpuTarget)
    blocks = function_command(DeclareBlocks)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            """Raises `UnknownNameError`: commands are those of computations, others have another name here."""
            if not name.startswith("_") and not hasattr(Function, name) and hasattr(Selection, name):
                raise UnknownNameError(
                    f"{self.name}.{name} is a command of a computation: write b.{name}(..) for one, b"
                )
            raise unknown_command(self, name)

    def __getitem__(self, name: str) -> Any:
        """The handle of this name: an input, a computation or its part, a transfer, an exchange, a wait or a barrier.

        ``f["image_to_gpu"]`` is the handle of a transfer that `derive_transfers` has added, ``f["down"]`` that of the
        exchange with the halves ``f["down_send"]`` and ``f["down_receive"]``. Raises `DeclarationError`.
        """
        algorithm = self._program.algorithm
        for each in algorithm.inputs.values():
            if each.inverts is not None and name in (each.name, each.inverts.name):
                return InverseRuns(self, each.name)
        if name in algorithm.inputs:
            return Input(self, name) if algorithm.inputs[name].covers is None else Segments(self, name)
        if name in algorithm.computations:
            kind = Reduction if algorithm.computations[name].is_reduction else Computation
            return kind(self, name)
        statement = self.completed.statements.get(name)
        if statement is not None and statement.link.transfer is not None:
            return Transfer(self, statement.source, name)
        if statement is not None and statement.link.message is not None:
            return Half(self, statement.source, name)
        if statement is not None and statement.link.waits is not None:
            return Wait(self, statement.link.waits.of, name)
        if statement is not None and statement.role is Role.BARRIER:
            return Barrier(self, "", name)
        if statement is not None:
            return Part(self, statement.source, name)
        moved = messages.halves(self.completed, name)
        if moved:
            return Exchange(self, moved[0].source, name)
        raise DeclarationError(f"{self.name} has nothing called {name!r}")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the algorithm and the commands of the schedule to a file, for `tm.load` in any process.

        ::

            f.save("blur.json")
            g = tm.load("blur.json")        in another process: g.commands == f.commands

        The file is JSON with a format number, and is written completely or not at all. It contains the declaration and
        the C text of each external function; its Python equivalent must be declared again (see `tm.load`). Raises
        `SavedError` if the file cannot be written.
        """
        written(path, self.algorithm, self.commands)

    def schedule(self, *handles: Selection) -> Several:
        """Several computations, or parts of them, that take each command together: all do, or none does.

        ::

            f.schedule(p, q).tile(i, j, 32, 32, i0, j0, i1, j1)    -->    p.tile(i, j, 32, 32, i0, j0, i1, j1)
                                                                          q.tile(i, j, 32, 32, i0, j0, i1, j1)

        Every command of a computation is available. Computations that share the loops that a command changes take it
        once. Raises `CommandError` if one of the computations refuses the command; nothing is changed then.
        """
        return chosen(self, handles)

    def skew_for(self, goal: Goal, *loops: Iter, tiles: Mapping[Iter, int] | None = None) -> Band:
        """`skew_for` of all computations that have these loops, as one nest: they are fused and shifted first.

        ::

            f.skew_for(tm.LOCALITY, t, i)    -->    f.schedule(ey, ex, hz).skew_for(tm.LOCALITY, t, i)

        Those that have not all of these loops, such as a copy of the result, stay as they are. Without `loops` all have
        to share a loop. Raises `CommandError` as that does, and if no computation has the loops.
        """
        return apply_skew_for(self, nest_of(self.program, [loop_name(loop) for loop in loops]), goal, loops, tiles)


@own_call
def load(path: str | os.PathLike[str], externs: Iterable[ForeignFunction] = ()) -> Function:
    """The function that `Function.save` wrote to a file: its algorithm, with the commands applied again.

    `externs` are the external functions that the algorithm calls, as `tm.extern` and `tm.extern_stage` declare them:
    without them the loaded function can be compiled, but not evaluated. Raises `SavedError` for a file of a newer
    version, a damaged file, and a file with a command or an argument that this version does not know, and
    `CommandError` if a command can no longer be applied.
    """
    algorithm, commands = read(path, externs)
    try:
        return Function.of(algorithm, commands)
    except TiramisuError as error:
        error.add_note(f"in the file {os.fspath(path)}")
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise damaged(path, error) from error


@own_call
def params(names: str) -> tuple[Param, ...]:
    """Parameters by name: ``R, C = tm.params("R C")``, ``(N,) = tm.params("N")``; symbolic sizes, at least 0."""
    return NameTuple((Param(check_name(name, "a parameter")) for name in _listed(names, "params", "N M")), "params")


@own_call
def iters(names: str) -> tuple[Iter, ...]:
    """Iterators by name: ``i, j = tm.iters("i j")``, ``(i,) = tm.iters("i")``."""
    return NameTuple((Iter(check_name(name, "an iterator")) for name in _listed(names, "iters", "i j")), "iters")


def _listed(names: object, function: str, such: str) -> list[str]:
    """The names in a text; raises `DeclarationError` for anything else, or one name twice."""
    if not isinstance(names, str):
        raise DeclarationError(f'{names!r} is not a text of names: write tm.{function}("{such}")')
    found = names.replace(",", " ").split()
    if len(set(found)) < len(found):
        raise DeclarationError(f"tm.{function}({names!r}) has a name twice")
    return found
