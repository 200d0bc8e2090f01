"""Declarations of runs of positions, and of the run that each position is in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tiramisu_py.algorithm import declarations
from tiramisu_py.algorithm.declarations import Algorithm, DistinctOf, InverseOf
from tiramisu_py.algorithm.declare.declare import declare_input
from tiramisu_py.algorithm.declare.run_numbers import known_numbers, less_one, numbers_of_runs
from tiramisu_py.algorithm.domains.domain import with_size
from tiramisu_py.algorithm.expressions import Const, Expr, Operand, Param, as_expr
from tiramisu_py.algorithm.names import check_name
from tiramisu_py.algorithm.types import DType, int32
from tiramisu_py.errors import CommandError, DeclarationError
from tiramisu_py.function.applying.caller import caller
from tiramisu_py.function.declaring import Declarations
from tiramisu_py.function.handles.computations import Input, Reduction
from tiramisu_py.function.handles.segments import InverseRuns, Segments
from tiramisu_py.program.initial import with_group, with_input
from tiramisu_py.rewriting.compaction import keys_of

#: How loops may find the run of a position.
FOUND = ("array", "search")


class RunDeclarations(Declarations):
    """Declarations of what a function takes, computes and returns; runs among that."""

    def segments(
        self,
        name: str,
        count: Operand,
        *,
        of: Operand,
        dtype: DType = int32,
        found: str = "array",
        at: Input | None = None,
    ) -> Segments:
        """Declare that positions 0 to `of` lie in `count` runs, one after the other: rows of a sparse matrix, edges of
        one type, items of one batch.

        The caller passes where each run begins, and the number of positions: ``[0, 2, 2, 5]`` are three runs of five
        positions. It is verified at a call that this begins at 0, never falls, and ends at `of`. ``{n: N, p: rows[n]}``
        is a domain; ``rows.of(p)`` is the run of a position, ``rows.start(n)`` where one begins::

            rows = f.segments("rows", N, of=P)
            y = f.reduction("y", {n: N}, {p: rows[n]}, tm.sum, value[p] * x[column[p]])
                -->   start = f.input("rows", tm.int32, [N + 1], values=(0, P + 1), monotone=True)
                      y = f.reduction("y", {n: N}, {p: (start[n], start[n + 1])}, tm.sum, value[p] * x[column[p]])

        Values in runs are kept by position. `found` is how loops that go through positions first find the run of each:
        in an ``"array"`` of the numbers of runs, which is made at a call (as COO has them), or by a binary ``"search"``
        among the beginnings (CSR), which takes no memory. Programs are the same otherwise. `at` is an input with the
        run of each position that the caller has already (COO), so that none is made::

            row = f.input("row", tm.int32, [P])
            rows = f.segments("rows", N, of=P, at=row)        row is rows.of, at all positions

        That it has the runs is verified at a call. Raises `DeclarationError`.
        """
        if found not in FOUND:
            raise DeclarationError(f"the segments {name} have found={found!r}: give {' or '.join(map(repr, FOUND))}")
        declared = replace(_segments(self._program.algorithm, name, count, of, dtype), search=found == "search")
        self._program = with_input(self._program, declared)
        if at is not None:
            self._number_runs(declared, at, found)
        return Segments(self, name)

    def _number_runs(self, runs: declarations.Input, at: Input, found: str) -> None:
        """Declare that an input has the run of each position."""
        algorithm = self._program.algorithm
        given = algorithm.inputs.get(at.name) if isinstance(at, Input) else None
        assert runs.covers is not None
        (count,) = runs.shape
        if found == "search":
            raise DeclarationError(f"the runs of {runs.name} are in {at}, found='search' looks for them: leave one out")
        if given is None or not given.dtype.is_integer or [each.key() for each in given.shape] != [runs.covers.key()]:
            raise DeclarationError(
                f"at={at} does not have the runs of {runs.name}: it is an input of this function of integers, one for "
                f"each position, [{runs.covers}]"
            )
        if given.device is not None or given.run_of or given.distinct is not None or given.inverts is not None:
            raise DeclarationError(f"at={at} is on a GPU, or something else already, and not the runs of {runs.name}")
        values = (as_expr(0), less_one(count)) if given.values is None else given.values
        algorithm = algorithm.with_input(replace(given, run_of=runs.name, values=values))
        self._program = self._program.with_(algorithm=algorithm)

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

    def _declare_keys(self, source: str, given: Sequence[Expr], name: str, *, of_terms: bool = False) -> None:
        """Declare the distinct combinations of keys that values of a computation are to be kept by, and their number.

        The number is a size of its own: the commands so far are given anew, to a program that has it.
        """
        verb = "sum_first" if of_terms else "compact"
        self._refuse_in_group(f"{verb} of {source}", CommandError)
        algorithm = self._program.algorithm
        keys = keys_of(algorithm, algorithm.computations[source], given, of_terms=of_terms)
        check_name(name, "distinct keys")
        count, of = f"{name}_count", f"{name}_of"
        columns = tuple(f"{name}_{key}" for key in keys.sources)
        about = DistinctOf(name, keys.sources, columns)
        if any(each.distinct == about for each in algorithm.inputs.values()):
            return  # another computation is compact by them
        for each in (count, of, *columns):
            if each in (*algorithm.inputs, *algorithm.computations, *algorithm.params):
                raise CommandError(f"{verb} of {source} needs the name {each}, which is taken: choose another name=")
        sources = [algorithm.inputs[key] for key in keys.sources]
        changed = with_size(algorithm.as_declared, count)
        for key, column in zip(sources, columns, strict=True):
            if key.covers is None:
                made = declare_input(
                    changed, column, key.dtype, [Param(count)], values=key.values, owner=self.owner, location=caller()
                )
                changed = changed.with_input(made)
            else:
                changed = changed.with_input(
                    _segments(changed, column, less_one(key.shape[0]), Param(count), key.dtype)
                )
                own = numbers_of_runs(changed, column, changed.owner, caller())
                changed = changed.with_computations({own.name: own, **changed.computations})
        extent = sources[0].shape[0] if sources[0].covers is None else sources[0].covers
        kind = next((key.dtype for key in sources if key.dtype.bits > int32.bits), int32)
        declared = declare_input(
            changed, of, kind, [extent], values=(0, Param(count)), owner=self.owner, location=caller()
        )
        self._begin_again(changed.with_input(replace(declared, distinct=about)))

    def _runs_of(self, segments: Segments) -> Input | Reduction:
        """The number of the run that each position is in, as values; see `Segments.of`."""
        algorithm, start = self._program.algorithm, segments.name
        known = known_numbers(algorithm, start)
        if known is None:
            known = numbers_of_runs(algorithm, start, self.owner, caller())
            self._program = with_group(self._program, [known])
        return Input(self, known.name) if isinstance(known, declarations.Input) else Reduction(self, known.name)


def _segments(algorithm: Algorithm, name: str, count: Operand, of: Operand, dtype: DType) -> declarations.Input:
    """An input that says where each of `count` runs of the positions 0 to `of` begins."""
    if not dtype.is_integer:
        raise DeclarationError(f"the segments {name} are {dtype}: where they begin is an integer")
    rows, positions = as_expr(count), as_expr(of)
    declared = declare_input(
        algorithm, name, dtype, [rows + 1], values=(0, positions + 1), monotone=True, owner=algorithm.owner,
        location=caller(),
    )  # fmt: skip
    assert declared.values is not None
    return replace(declared, covers=less_one(declared.values[1]))


def _is_zero(e: Expr) -> bool:
    return isinstance(e, Const) and e.value == 0
