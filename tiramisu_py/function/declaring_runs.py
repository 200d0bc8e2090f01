"""Declarations of runs of positions, and of the run that each position is in."""

from __future__ import annotations

from dataclasses import replace

from tiramisu_py.algorithm.declarations import InverseOf
from tiramisu_py.algorithm.declare.declare import declare_input
from tiramisu_py.algorithm.declare.run_numbers import known_numbers, less_one, numbers_of_runs
from tiramisu_py.algorithm.expressions import Const, Expr, Operand, as_expr
from tiramisu_py.algorithm.names import check_name
from tiramisu_py.algorithm.types import DType, int32
from tiramisu_py.errors import DeclarationError
from tiramisu_py.function.applying.caller import caller
from tiramisu_py.function.declaring import Declarations
from tiramisu_py.function.handles.computations import Input, Reduction
from tiramisu_py.function.handles.segments import InverseRuns, Segments
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
        self._program = with_input(self._program, replace(declared, covers=less_one(declared.values[1])))
        return Segments(self, name)

    def inverse(self, name: str, index: Input) -> InverseRuns:
        """Declare that the caller passes the inverse of an index: for each value of it the positions where it has that.

        An argument `name` is ``tm.inverse(dst, N)``, or any pair of where the runs begin and of the order of positions
        that is one: it is verified at a call that `order` has the positions of ``index == n`` in run n, in their order.
        The index is an input with ``values=(0, N)``. With it what positions scatter is gathered by their places::

            dst = f.input("dst", tm.int32, [E], values=(0, N))
            into = f.inverse("into", dst)
            out = f.scatter("out", {n: N}, over={p: E}, at=[dst[p]], op=tm.sum, expr=x[p])
            out.gather(into)                   for n: for q in into[n]: out[n] += x[into.order[q]]

        Raises `DeclarationError`.
        """
        algorithm = self._program.algorithm
        of = algorithm.inputs.get(index.name) if isinstance(index, Input) else None
        if of is None or len(of.shape) != 1 or of.values is None or not _is_zero(of.values[0]):
            raise DeclarationError(
                f"{index} has no inverse: it is an input with one dimension and values=(0, N), of this function"
            )
        check_name(name, "an inverse")
        if name in algorithm.inputs or name in algorithm.computations or name in algorithm.params:
            raise DeclarationError(f"{name!r} is declared already")
        (extent,), kind = of.shape, of.dtype if of.dtype.bits >= 32 else int32
        self.segments(f"{name}_start", of.values[1], of=extent, dtype=kind)
        declared = declare_input(
            self._program.algorithm, f"{name}_order", kind, [extent], values=(0, extent), permutation=True,
            owner=self.owner, location=caller(),
        )  # fmt: skip
        about = InverseOf(name, index.name, f"{name}_start")
        self._program = with_input(self._program, replace(declared, inverts=about))
        return InverseRuns(self, f"{name}_order")

    def _runs_of(self, segments: Segments) -> Reduction:
        """The number of the run that each position is in, as values; see `Segments.of`."""
        algorithm, start = self._program.algorithm, segments.name
        known = known_numbers(algorithm, start)
        if known is None:
            known = numbers_of_runs(algorithm, start, self.owner, caller())
            self._program = with_group(self._program, [known])
        return Reduction(self, known.name)


def _is_zero(e: Expr) -> bool:
    return isinstance(e, Const) and e.value == 0
