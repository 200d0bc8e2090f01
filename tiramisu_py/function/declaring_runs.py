"""Declarations of runs of positions, and of the run that each position is in."""

from __future__ import annotations

from dataclasses import replace

from tiramisu_py.algorithm.declarations import max_
from tiramisu_py.algorithm.declare.declare import declare_input, declare_reduction
from tiramisu_py.algorithm.expressions import Binary, Const, Expr, Iter, Operand, as_expr, cast
from tiramisu_py.algorithm.types import DType, int32, int64
from tiramisu_py.algorithm.words.scattering import scatter
from tiramisu_py.errors import DeclarationError
from tiramisu_py.function.applying.caller import caller
from tiramisu_py.function.declaring import Declarations
from tiramisu_py.function.handles.computations import Reduction
from tiramisu_py.function.handles.segments import Segments
from tiramisu_py.program.initial import with_group, with_input


class RunDeclarations(Declarations):
    """What a function takes, computes and returns; runs among that."""

    def segments(self, name: str, count: Operand, *, of: Operand, dtype: DType = int32) -> Segments:
        """Declare that positions 0 to `of` lie in `count` runs, one after the other: rows of a sparse matrix, edges of
        one type, items of one batch.

        The caller passes where each run begins, and the number of positions: ``[0, 2, 2, 5]`` are three runs of five
        positions. It is verified at a call that this begins at 0, never falls, and ends at `of`. ``{n: N, p: rows[n]}``
        is a domain; ``rows.of(p)`` is the run of a position, ``rows.start(n)`` where one begins::

            rows = f.segments("rows", N, of=P)
            y = f.reduction("y", {n: N}, {p: rows[n]}, tm.sum, value[p] * x[column[p]])
                -->   start = f.input("rows", tm.int32, [N + 1], values=(0, P + 1), monotone=True)
                      y = f.reduction("y", {n: N}, {p: (start[n], start[n + 1])}, tm.sum, value[p] * x[column[p]])

        Values in runs are kept by position. Raises `DeclarationError`.
        """
        if not dtype.is_integer:
            raise DeclarationError(f"the segments {name} are {dtype}: where they begin is an integer")
        rows, positions = as_expr(count), as_expr(of)
        declared = declare_input(
            self._program.algorithm, name, dtype, [rows + 1], values=(0, positions + 1), monotone=True,
            owner=self.owner, location=caller(),
        )  # fmt: skip
        assert declared.values is not None
        self._program = with_input(self._program, replace(declared, covers=_less_one(declared.values[1])))
        return Segments(self, name)

    def _runs_of(self, segments: Segments) -> Reduction:
        """The number of the run that each position is in, as values; see `Segments.of`."""
        algorithm, start = self._program.algorithm, segments.name
        known = next((each.name for each in algorithm.computations.values() if each.run_of == start), None)
        if known is not None:
            return Reduction(self, known)
        name, declared = f"{start}_of", algorithm.inputs[start]
        assert declared.covers is not None
        position, run, at = Iter("position"), Iter("run"), Iter("at")
        (extent,) = declared.shape
        made = declare_reduction(
            algorithm, name, {position: declared.covers}, {run: _less_one(extent), at: segments[run]}, max_,
            scatter(cast(declared.dtype, run), [at]), values=(0, _less_one(extent)), owner=self.owner,
            location=caller(),
        )  # fmt: skip
        self._program = with_group(self._program, [replace(made, run_of=start)])
        return Reduction(self, name)


def _less_one(e: Expr) -> Expr:
    """``e - 1``, without a sum where that was ``count + 1``."""
    if isinstance(e, Binary) and e.op == "+" and isinstance(e.right, Const) and e.right.value == 1:
        return e.left
    return cast(int64, e) - 1 if isinstance(e, Const) else e - 1
