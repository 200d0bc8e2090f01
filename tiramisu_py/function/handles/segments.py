"""Runs of positions: the handle of an input that says where each begins."""

from __future__ import annotations

from typing import Any

from tiramisu_py.algorithm.domains.references import access
from tiramisu_py.algorithm.expressions import Expr, Operand
from tiramisu_py.errors import DeclarationError
from tiramisu_py.function.handles.computations import Input


class InverseRuns(Input):
    """An inverse of an index: ``into[n]`` are the positions of run n, ``into.order[q]`` is what is there."""

    @property
    def _start(self) -> str:
        about = self._declared.inverts
        assert about is not None
        return about.start

    def __getitem__(self, indices: Any) -> Any:
        """The positions of a run in the order, as bounds of a domain: ``{n: N, q: into[n]}``."""
        return Segments(self._function, self._start)[indices]

    @property
    def order(self) -> Input:
        """The positions of the index, run by run."""
        return Input(self._function, self.name)


class Segments(Input):
    """Runs of positions: ``rows[n]`` are the positions of run n, as bounds of a domain; ``rows.of(p)`` is p's run."""

    def __getitem__(self, indices: Any) -> Any:
        """The positions of a run: ``{n: N, p: rows[n]}``, from `start(n)` up to `start(n + 1)`."""
        if isinstance(indices, tuple):
            raise DeclarationError(f"{self.name} has runs with one number each, {self.name}[n]: two were given")
        return self.start(indices), self.start(indices + 1)

    def start(self, number: Operand) -> Expr:
        """Where a run begins: an element of the array; that of the number of runs is the number of positions."""
        return access(self.name, self.dtype, 1, number, self._function.owner)

    def of(self, position: Operand) -> Expr:
        """The number of the run that a position is in.

        The numbers of all positions are values of their own, ``rows_of``, which are computed from where the runs begin:
        they are declared where they are first asked for.
        """
        function: Any = self._function
        numbers: Expr = function._runs_of(self)[position]
        return numbers
