"""The vocabulary of random stencils on ranks, and random commands on their programs."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.oracle.generators.random_programs import Commands
from tests.oracle.generators.script import Script
from tiramisu_py.program.statement import Role, Statement


@dataclass(frozen=True)
class Dim:
    """A dimension of the data: its iterator and extent, and the block, rank loop and inner loop where it is dealt."""

    iterator: str
    extent: str
    block: int = 0
    rank: str = ""
    inner: str = ""


@dataclass(frozen=True)
class Source:
    """An input or a computation, with indices from ``low[d]`` to the extent of d + ``more[d]`` - 1.

    `aligned`: rank i // B computes, or holds, index i. `timed`: a first index is the time.
    """

    name: str
    low: tuple[int, ...]
    more: tuple[int, ...]
    aligned: bool
    timed: bool = False


@dataclass(frozen=True)
class Read:
    """What a computation reads: the source, and the least and the greatest offset in each dimension."""

    reader: Source
    source: Source
    least: tuple[int, ...]
    most: tuple[int, ...]


def plus(text: str, value: int) -> str:
    return f"{text} {'+' if value > 0 else '-'} {abs(value)}" if value else text


@dataclass(frozen=True, eq=False)
class Hop:
    """An exchange: what a computation reads, from the rank so far away along each dimension."""

    read: Read
    by: tuple[int, ...]


_KINDS = (
    "split",
    "interchange",
    "reverse",
    "parallelize",
    "vectorize",
    "shift",
    "order",
    "fused",
    "separate",
    "unroll",
)


class RankCommands(Commands):
    """Random commands on all statements, halves of exchanges and waits too."""

    def __init__(self, choice: random.Random, script: Script) -> None:
        super().__init__(choice, script)
        self.script.names.update({f"x{n}": script.names["tm"].iters(f"x{n}")[0] for n in range(12)})
        self.kinds = list(_KINDS)

    def write(self, count: int) -> Script:
        """At most `count` commands; those that a statement does not have leave no line either."""
        for _ in range(count):
            try:
                super().write(1)
            except (AttributeError, ValueError):
                continue  # a wait without loops, or half an exchange
        return self.script

    def _handle(self, statement: Statement) -> str:
        if statement.link.message is not None:
            half = "send" if statement.role is Role.SEND else "recv"
            return f"{statement.link.message.exchange}.{half}"
        return super()._handle(statement)
