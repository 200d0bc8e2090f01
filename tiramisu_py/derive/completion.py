"""The completion: what is added to a program before it is proven, as one tuple of steps in order.

A step adds statements and events, or enlarges buffers; of the user's statements it changes only where their values are
kept. The proof judges the completed program, and knows nothing of the steps. All programs go through the same steps:
those that are proven, emitted or interpreted, and earlier states replayed to find the command to blame.
"""

from __future__ import annotations

from collections.abc import Callable

from tiramisu_py.dependence.vector_padding import with_room
from tiramisu_py.derive.barriers.barriers import with_barriers
from tiramisu_py.derive.barriers.rank_partials import with_rank_reductions
from tiramisu_py.derive.barriers.rounds import with_rounds_apart
from tiramisu_py.derive.barriers.thread_registers import with_thread_registers
from tiramisu_py.derive.barriers.tickets import with_tickets
from tiramisu_py.derive.barriers.tree_partials import with_tree_reductions
from tiramisu_py.program.program import Program
from tiramisu_py.program.ranks.spread import spread
from tiramisu_py.records import dataclass


@dataclass(frozen=True)
class CompletionStep:
    """One step of the completion: its name, what it adds, and the program with that added."""

    name: str
    adds: str
    added: Callable[[Program], Program]


#: The steps in order. Tickets come before what counts a kernel's threads and places its barriers. Barriers come after
#: tree reductions: the results of trees may be used in their kernel.
COMPLETION: tuple[CompletionStep, ...] = (
    CompletionStep(
        "room for whole vectors", "elements for what vectors store and load past the end of a loop", with_room
    ),
    CompletionStep("tickets", "tickets of the blocks whose last one goes on with what follows", with_tickets),
    CompletionStep(
        "thread registers", "registers of each thread, for what separate thread loops use", with_thread_registers
    ),
    CompletionStep("rank reductions", "start, combination and end of what ranks reduce together", with_rank_reductions),
    CompletionStep(
        "tree reductions", "start, combination and end of what a block reduces in a tree", with_tree_reductions
    ),
    CompletionStep("barriers", "barriers between threads of a block that use one another's values", with_barriers),
    CompletionStep("rounds", "a barrier at the end of a block that goes on as another one", with_rounds_apart),
)


def complete(program: Program) -> Program:
    """The program after all steps: what is proven and emitted."""
    for step in COMPLETION:
        program = step.added(program)
    return program


def as_proven(program: Program) -> Program:
    """The completed program with the coordinates of its rank in every instance, as the conditions examine it."""
    return spread(complete(program))
