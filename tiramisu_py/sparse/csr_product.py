"""Reductions over the rows of a sparse matrix in CSR: ``y[i] = op of e(p) over start[i] <= p < start[i + 1]``."""

from __future__ import annotations

from collections.abc import Iterator

from tiramisu_py import Computation, Expr, Function, Iter, int32, int64
from tiramisu_py.errors import ArgumentError
from tiramisu_py.queries import (
    Access,
    Algorithm,
    Binary,
    Cast,
    Const,
    Declared,
    DeclaredInput,
    function_of,
    same_points,
    unused_word,
    walk,
)
from tiramisu_py.records import dataclass

_EXAMPLE = "f.reduction(name, {i: N}, over={p: (start[i], start[i + 1])}, ...)"


@dataclass(frozen=True, eq=False)
class CsrProduct:
    """A reduction over the entries of each row; all its operands are inputs.

    `start` has the first entry of each row. `entries` are the inputs with an element for each entry, such as values
    and columns; `others` those that the terms read besides, such as the vector.
    """

    caller: str
    algorithm: Algorithm
    declared: Declared
    start: DeclaredInput
    entries: tuple[DeclaredInput, ...]
    others: tuple[DeclaredInput, ...]

    @property
    def row(self) -> str:
        """The iterator over rows."""
        return self.declared.iterators[0]

    @property
    def term(self) -> str:
        """The iterator over the entries of a row."""
        return self.declared.over[0]

    @property
    def rows(self) -> Expr:
        """The number of rows."""
        return _rows(self.caller, self.declared, self.start)

    @property
    def count(self) -> Expr:
        """The number of entries."""
        return self.entries[0].shape[0]


def csr_product(caller: str, product: object) -> CsrProduct:
    """The parts of such a reduction; raises `ArgumentError` on behalf of `caller` for others, with the reason."""
    if not isinstance(product, Computation):
        raise ArgumentError(f"{caller} takes a reduction over the rows of a matrix, and {product!r} is none")
    algorithm = function_of(product).algorithm
    declared = algorithm.computations.get(product.name)
    if declared is None or declared.op is None or declared.in_order:
        raise ArgumentError(f"{caller}: {product} is no reduction whose order is free: declare {_EXAMPLE}")
    if len(declared.iterators) != 1 or len(declared.over) != 1:
        raise ArgumentError(f"{caller}: {product} is not one value for each row: declare {_EXAMPLE}")
    start = _start(caller, algorithm, declared)
    inputs = [_input(caller, algorithm, declared, e) for e in walk(declared.expr) if isinstance(e, Access)]
    entries = {e.source for e in walk(declared.expr) if isinstance(e, Access) and _is_entry(e, declared.over[0])}
    read = {name: each for name, each in algorithm.inputs.items() if each in inputs}
    found = CsrProduct(
        caller, algorithm, declared, start,
        tuple(each for name, each in read.items() if name in entries),
        tuple(each for name, each in read.items() if name not in entries),
    )  # fmt: skip
    _check_terms(found)
    _check_points(found)
    return found


def _start(caller: str, algorithm: Algorithm, declared: Declared) -> DeclaredInput:
    """The input with the starts of rows, from the two conditions that the bounds of a row are."""
    row, term = declared.iterators[0], declared.over[0]
    found = [_bound(guard, row, term) for guard in declared.guards]
    names = {name for name, _ in found}
    ends = sorted(end for _, end in found)
    if ends != [0, 1] or len(names) != 1 or not names <= set(algorithm.inputs):
        raise ArgumentError(
            f"{caller}: the entries of row {row} of {declared.name} are not those from start[{row}] up to "
            f"start[{row} + 1] of an input, without further conditions: declare {_EXAMPLE}"
        )
    start = algorithm.inputs[names.pop()]
    if not start.monotone or start.dtype not in (int32, int64):
        raise ArgumentError(
            f"{caller}: {start.name}, where the rows of {declared.name} start, is not declared to be monotone, or not "
            "of type int32 or int64: declare it with monotone=True"
        )
    return start


def _bound(guard: Expr, row: str, term: str) -> tuple[str, int]:
    """The source, and 0 or 1, if a condition is ``source[row] <= term`` or ``term < source[row + 1]``."""
    if isinstance(guard, Binary):
        if guard.op == "<=" and _is_iterator(guard.right, term):
            return _element(guard.left, row, 0)
        if guard.op == "<" and _is_iterator(guard.left, term):
            return _element(guard.right, row, 1)
    return "", -1


def _element(e: Expr, row: str, offset: int) -> tuple[str, int]:
    """The source and the offset, if an expression is ``source[row + offset]``."""
    while isinstance(e, Cast):
        e = e.operand
    if not isinstance(e, Access) or len(e.indices) != 1:
        return "", -1
    (index,) = e.indices
    if offset == 0:
        return (e.source, 0) if _is_iterator(index, row) else ("", -1)
    plus_one = isinstance(index, Binary) and index.op == "+" and _is_iterator(index.left, row)
    one = isinstance(index, Binary) and isinstance(index.right, Const) and index.right.value == 1
    return (e.source, 1) if plus_one and one else ("", -1)


def _is_iterator(e: Expr, name: str) -> bool:
    return isinstance(e, Iter) and e.name == name


def _input(caller: str, algorithm: Algorithm, declared: Declared, read: Access) -> DeclaredInput:
    found = algorithm.inputs.get(read.source)
    if found is None or found.device is not None:
        raise ArgumentError(f"{caller}: {declared.name} reads {read}: its terms are made of inputs on the host")
    return found


def _is_entry(e: Expr, term: str) -> bool:
    return isinstance(e, Access) and len(e.indices) == 1 and _is_iterator(e.indices[0], term)


def _check_terms(found: CsrProduct) -> None:
    """Refuse terms that depend on the row or on the number of an entry, other than through the entry's elements."""
    if not found.entries:
        raise ArgumentError(
            f"{found.caller}: {found.declared.name} reads no input at [{found.term}]: there is no matrix"
        )
    for e in _without_entries(found.declared.expr, found.term):
        if isinstance(e, Iter):
            raise ArgumentError(
                f"{found.caller}: the terms of {found.declared.name} depend on {e.name} itself: they may read inputs "
                f"at [{found.term}], and others at places that such elements say"
            )
        if isinstance(e, Access) and any(e.source == entry.name for entry in found.entries):
            raise ArgumentError(f"{found.caller}: {found.declared.name} reads {e.source} at [{found.term}] and at {e}")
    if found.start.name in {each.name for each in (*found.entries, *found.others)}:
        raise ArgumentError(f"{found.caller}: the terms of {found.declared.name} read {found.start.name}")


def _without_entries(e: Expr, term: str) -> Iterator[Expr]:
    """The nodes of an expression outside of the reads of an entry's elements."""
    if not _is_entry(e, term):
        yield e
        for child in e.children():
            yield from _without_entries(child, term)


def _check_points(found: CsrProduct) -> None:
    """Refuse reductions over a part of the rows, or of their entries."""
    declared, count = found.declared, found.count
    if any(not entry.shape[0].same_as(count) for entry in found.entries):
        names = ", ".join(entry.name for entry in found.entries)
        raise ArgumentError(f"{found.caller}: {names} have different shapes: give each an element for each entry")
    if declared.shape is not None and not (len(declared.shape) == 1 and declared.shape[0].same_as(found.rows)):
        raise ArgumentError(f"{found.caller}: {declared.name} is kept in an array of another shape than [{found.rows}]")
    low, high = found.start.values or (None, None)
    if low is None or high is None or not _is_whole(found):
        raise ArgumentError(
            f"{found.caller}: {declared.name} is not over all rows and all their entries: declare "
            f"{found.start.name} with values=(0, {count} + 1) and {_EXAMPLE}"
        )


def _is_whole(found: CsrProduct) -> bool:
    """Whether the points are all pairs of a row and an entry."""
    declared, algorithm = found.declared, found.algorithm
    scratch, name = Function.of(algorithm), unused_word("pairs", {*algorithm.inputs, *algorithm.computations})
    scratch.computation(name, {Iter(found.row): found.rows, Iter(found.term): found.count}, 0)
    whole = scratch.algorithm.computations[name]
    return same_points(whole, whole.iterators, declared, declared.point_iterators)


def _rows(caller: str, declared: Declared, start: DeclaredInput) -> Expr:
    """N of an input of shape [N + 1]."""
    (extent,) = start.shape if len(start.shape) == 1 else (None,)
    if isinstance(extent, Binary) and extent.op == "+" and isinstance(extent.right, Const) and extent.right.value == 1:
        return extent.left
    raise ArgumentError(f"{caller}: {start.name} has no shape [N + 1], with the starts of the N rows and the end")
