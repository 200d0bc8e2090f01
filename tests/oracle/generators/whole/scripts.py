"""Whole programs: an algorithm, a target, and commands."""

from __future__ import annotations

import random
from contextlib import suppress

from tests.oracle.generators.gpu_random import GpuCommands
from tests.oracle.generators.script import Script, Seed, choices
from tests.oracle.generators.whole.algorithms import WholeAlgorithms
from tests.oracle.generators.whole.commands import EveryCommand
from tiramisu_py.program.statement import Role

TARGETS = ("cores",) * 12 + ("gpu", "gpu", "ranks", "ranks")


def whole_script(choice: random.Random) -> Script:
    """A random program; any source of random choices will do, also one that can be shrunk."""
    target = choice.choice(TARGETS)
    script = WholeAlgorithms(choice, None if target == "cores" else choice.choice((1, 2, 2, 3))).written()
    commands = EveryCommand(choice, script, target)
    if target == "ranks":
        _on_ranks(choice, commands)
    if target == "gpu":
        _on_gpu(choice, commands)
    if target == "cores":
        return commands.write(choice.choice((0, 1, 2, 3, 4, 5, 6, 8)))
    commands.write(choice.choice((0, 0, 1, 2)))
    if choice.random() < 0.9:
        commands.attempt("f.derive_transfers()")
    return commands.write(choice.choice((0, 0, 0, 1)))


def random_whole_script(seed: Seed) -> Script:
    """The same for the same seed."""
    return whole_script(choices(seed))


def _on_gpu(choice: random.Random, commands: EveryCommand) -> None:
    """Kernels of most statements."""
    gpu = GpuCommands(choice, commands.script, [])
    gpu.fresh = commands.fresh
    for statement in gpu._own():
        if statement.loops and choice.random() < 0.85:
            with suppress(IndexError, StopIteration):  # all of its loops are values of a sum that has none
                if statement.role is Role.UPDATE and choice.random() < 0.4:
                    commands.attempt(commands._tree(statement, commands._handle(statement)))
                else:
                    gpu._kernel(statement)


def _on_ranks(choice: random.Random, commands: EveryCommand) -> None:
    """Blocks of the first loop of most statements, and of arrays."""
    block = choice.choice((1, 2, 2, 3))
    program = commands.script.program
    reductions = [name for name, each in program.algorithm.computations.items() if each.is_reduction]
    combined = {name for name in reductions if choice.random() < 0.4}  # of terms on all ranks, started on each
    for statement in list(program.statements.values()):
        loops, handle = commands.script.program.loop_names(statement), commands._handle(statement)
        together = statement.source in combined
        if not loops or choice.random() < (0.9 if together and statement.role is Role.INIT else 0.1):
            continue
        loop, combine = loops[0], ""
        if together and statement.role is Role.UPDATE:
            loop, combine = loops[-1 if choice.random() < 0.8 else 0], ", combine=tm.PRIVATE"
        outer, inner = next(commands.fresh, ""), next(commands.fresh, "")
        if inner and commands.attempt(f"{handle}.split({loop}, {block}, {outer}, {inner})"):
            commands.attempt(f"{handle}.tag_distribute({outer}{combine})")
    for source in (*program.algorithm.inputs, *program.algorithm.outputs):
        iterators = commands._new_iterators(source)
        if iterators and choice.random() < 0.6:
            listed = ", ".join(iterators)
            commands.attempt(f"{commands._name(source)}.distribute_array([{listed}], rank={iterators[0]} // {block})")
