"""The stories of examples/mpi, and other programs, are minimal, and wrong ones are found without a cluster.

Each wait and each message of the lowered program is taken out in turn, and each guard and loop around a message is
widened: ranks in one process, with messages that take as long as they may, must then fail, or compute or send something
else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.oracle.judges.rank_arrays import agreed, ran_on_ranks
from tests.programs.ranks import mpi_stories as stories
from tests.programs.ranks.mpi_programs import PROGRAMS
from tiramisu_py.interpret import InterpretError
from tiramisu_py.ir import AllReduce, Collective, Complete, For, If, LoopFunction, Node, Post, Store
from tiramisu_py.ir.arithmetic import build as arithmetic
from tiramisu_py.ir.rewriting import EMPTY, block, walk, with_children

RANKS, SIZE, COLUMNS, SEEDS = 4, 6, 7, 6

#: What all ranks take part in.
Together = AllReduce | Collective

#: What is done to a statement: its kind, and the statement instead (None where there is nothing to change).
CHANGES: Mapping[str, Callable[[Node], Node | None]] = {
    "without the wait": lambda node: EMPTY if isinstance(node, Complete) else None,
    "without the message": lambda node: EMPTY if isinstance(node, Post) else None,
    "without what all ranks do": lambda node: EMPTY if isinstance(node, Together) else None,
    "without the guard of a message": lambda node: node.then if isinstance(node, If) and _posts(node) else None,
    "one message later": lambda node: _longer(node, 0, 1),
    "one message earlier": lambda node: _longer(node, -1, 0),
}


def _posts(node: Node) -> list[Post]:
    return [inner for inner in walk(node) if isinstance(inner, Post)]


def _longer(node: Node, before: int, after: int) -> Node | None:
    if not isinstance(node, For) or not _posts(node) or any(isinstance(inner, Store) for inner in walk(node)):
        return None
    return replace(node, lower=arithmetic.plus(node.lower, before), upper=arithmetic.plus(node.upper, after))


def lost(node: Node) -> Node:
    """What fails when it is executed: a message to a rank that does not exist."""
    return replace(_posts(node)[0], peer=arithmetic.number(-1), request=None)


@dataclass(frozen=True)
class Story:
    """A story for few ranks, on small arrays."""

    f: tm.Function
    function: LoopFunction
    given: Mapping[str, Any]
    counted: int

    def fails(self, body: Node) -> bool:
        """Whether some timing of messages finds a fault in a program, or it computes, or sends, something else."""
        return any(self.is_wrong(body, seed) for seed in range(SEEDS))

    def is_wrong(self, body: Node, seed: int) -> bool:
        """Whether a program fails with one timing."""
        try:
            ran = ran_on_ranks(self.f, seed=seed, function=replace(self.function, body=body), **self.given)
        except (InterpretError, AssertionError):
            return True
        outputs = ran.outputs if len(ran.outputs) > 1 else ran.outputs[0]
        return ran.traffic.bytes != self.counted or bool(agreed(self.f, outputs, **self.given))


def small(name: str, variant: str) -> Story:
    """A story with two steps in time and a few columns."""
    story = stories.module(name)
    f = story.VARIANTS[variant](RANKS, SIZE)
    given = dict(story.sample(variant, SIZE, 1))
    for argument, value in list(given.items()):
        if argument == "T":
            given[argument] = 2
        elif "C" in f.algorithm.params and argument != "weights":
            given[argument] = np.ascontiguousarray(value[:, :COLUMNS])
            given["C"] = COLUMNS - (2 if f.name == "blur" else 0)
    return made(f, given)


def made(f: tm.Function, given: Mapping[str, Any]) -> Story:
    """A function with its arguments, to be changed."""
    counted = f.cost("communication", **{param: given[param] for param in f.algorithm.params}).bytes
    return Story(f, f.show("lowered"), given, counted)


def changed(node: Node, old: Node, new: Node) -> Node:
    """A program with one of its statements replaced."""
    return new if node is old else with_children(node, lambda child: changed(child, old, new))


def mutants(story: Story, kind: str) -> Iterator[tuple[str, Node, bool]]:
    """Programs with one change of a kind, and whether what was changed matters for these sizes."""
    body = story.function.body
    for at, node in enumerate(walk(body)):
        other = CHANGES[kind](node)
        if other is None:
            continue
        if isinstance(node, If):  # a guard that always holds may as well be left out
            matters = story.is_wrong(changed(body, node, replace(node, otherwise=lost(node))), 0)
        else:
            matters = isinstance(node, Complete | Together) or story.is_wrong(
                changed(body, node, block([lost(node), node])), 0
            )
        yield f"{kind}, statement {at}", changed(body, node, other), matters


EXCHANGING = [
    (name, variant) for name, variant in stories.variants() if variant not in ("grey", "brighter and negative")
]


def check_that_all_is_needed(story: Story) -> None:
    """Whether every change of a program is found."""
    assert not story.fails(story.function.body)
    tried = 0
    for kind in CHANGES:
        for described, body, matters in mutants(story, kind):
            assert not matters or story.fails(body), described
            tried += matters
    assert tried


@pytest.mark.parametrize(("name", "variant"), EXCHANGING)
def test_every_wait_message_and_guard_of_a_story_is_needed(name: str, variant: str) -> None:
    check_that_all_is_needed(small(name, variant))


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_wait_message_and_guard_of_a_program_is_needed(name: str) -> None:
    check_that_all_is_needed(made(*PROGRAMS[name]()))
