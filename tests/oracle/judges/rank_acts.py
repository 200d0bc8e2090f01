"""Executions on ranks."""

from __future__ import annotations

from dataclasses import dataclass

from tests.oracle.judges.events import Event
from tests.oracle.judges.plain import Point
from tiramisu_py.program.statement import Role


@dataclass(frozen=True, eq=False)
class Act(Event):
    """An execution on a rank. Of a send, `target` is what it reads.

    One that `collects` adds a term to a partial result of its rank, which is no place of the program.
    """

    rank: Point = ()
    collects: bool = False

    @property
    def stores(self) -> bool:
        """Whether it changes a place of the program."""
        return self.role is not Role.SEND and not self.collects
