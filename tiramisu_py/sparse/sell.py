"""Products over the rows of a sparse matrix on slices of rows: SELL-C-sigma, an inspector and an executor.

A slice is C rows whose entries lie side by side, the k-th ones of all its rows together, so that a vector holds rows.
Rows are sorted by their length within windows of sigma rows, so that the rows of a slice have about the same length.
Source: Kreutzer et al., "A unified sparse matrix data format for modern processors with wide SIMD units".

All parts are programs like any other: the rank of a row in its window is a reduction over the window, the order of rows
a scatter, the entries of slices a gather. Places of a slice beyond the end of a row hold some entry of the matrix; the
executor leaves them out by the length of the row, so that they add nothing to any sum, whatever the vector holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tiramisu_py import (
    Buffer,
    Computation,
    DType,
    Expr,
    Function,
    Input,
    Iter,
    Memory,
    Operator,
    Param,
    Reduction,
    Report,
    cast,
    int64,
    maximum,
    minimum,
    select,
)
from tiramisu_py import max as max_
from tiramisu_py import sum as sum_
from tiramisu_py.errors import ArgumentError
from tiramisu_py.public_calls import own_call_of
from tiramisu_py.queries import Access, Const, as_expr, rewrite, unused_word, walk
from tiramisu_py.queries import Declared as Product
from tiramisu_py.queries import DeclaredInput as Declared
from tiramisu_py.records import dataclass
from tiramisu_py.sparse.csr_product import CsrProduct, csr_product
from tiramisu_py.sparse.sell_matrix import SellKernels

#: Numbers of rows of a slice: as many as the lanes of a vector.
LANES = (2, 4, 8, 16, 32)
#: How many places of each row ahead of their use entries are prefetched.
AHEAD = 64
#: The rows whose ranks are computed at once.
RANKED = 16


@dataclass(frozen=True, eq=False)
class Sell:
    """The programs of a product over slices of rows; see `sell`.

    `rows` takes the starts of rows, and returns the order of rows, their lengths in this order, and the first places of
    slices. Each of `packs` copies one input with an element for each entry to the places of slices. `multiply` is the
    product. `start` names the input with the starts of rows; `slices` and `places` are the parameters for the number
    of slices, and for the places of a lane in all of them.
    """

    rows: Function
    packs: Mapping[str, Function]
    multiply: Function
    start: str
    slices: str
    places: str
    lanes: int

    @property
    def functions(self) -> tuple[Function, ...]:
        """All programs, in the order in which they run."""
        return (self.rows, *self.packs.values(), self.multiply)

    def check(self) -> tuple[Report, ...]:
        """The proof of each program."""
        return tuple(each.check() for each in self.functions)

    def compile(self, **options: Any) -> SellKernels:
        """The programs as kernels; `options` are those of `Function.compile`, for all of them.

        Facts about a matrix are verified when it is inspected, and those about other arguments at each call.
        """
        multiply = self.multiply.compile(**options)
        given = self.multiply.algorithm.inputs
        others = [each for each in list(given.values())[3:] if each.name not in self.packs]
        has_facts = any(map(_has_facts, others))
        trusting = multiply if has_facts else self.multiply.compile(**{**options, "verify_values": False})
        packs = {name: each.compile(**options) for name, each in self.packs.items()}
        rows = self.rows.compile(**options)
        return SellKernels(rows, packs, multiply, trusting, self.start, self.slices, self.places, self.lanes)


@own_call_of("tm.sparse")
def sell(product: Computation, *, lanes: int = 8, window: int = 256) -> Sell:
    """The programs that compute a reduction over the rows of a sparse matrix (CSR) on slices of rows (SELL-C-sigma).

    ::

        y = f.reduction("y", {i: N}, over={p: (start[i], start[i + 1])}, op=tm.sum, expr=value[p] * x[column[p]])
        f.outputs(y)
        programs = tm.sparse.sell(y)
        kernels = programs.compile()
        matrix = kernels.inspect(start, column, value, M=columns)         once for each matrix
        matrix(x)                                                         for each vector
        matrix.replace(value=others)                                      other values in the same places

    `lanes` is the number of rows of a slice (C), and `window` that of the rows that are sorted by length (sigma). The
    terms may be any expression of the entry's elements, of scalars, and of inputs at places that such elements say; the
    operator may be any. Sums are in the order of the entries of each row. `f` itself does not change, and its schedule
    does not matter.

    Raises `ArgumentError` for other reductions, with the reason.
    """
    found = csr_product("sell", product)
    if isinstance(lanes, bool) or lanes not in LANES:
        raise ArgumentError(f"sell: lanes={lanes!r}: choose one of {', '.join(map(str, LANES))}")
    if isinstance(window, bool) or not isinstance(window, int) or window < lanes or window % max(lanes, RANKED):
        raise ArgumentError(f"sell: window={window!r}: give a multiple of {max(lanes, RANKED)}")
    made = _Programs(found, lanes, window)
    packs = {entry.name: made.pack(entry) for entry in found.entries}
    names = (found.start.name, made.slices.name, made.width.name)
    return Sell(made.rows(), packs, made.multiply(), *names, lanes)


def _has_facts(declared: Declared) -> bool:
    return declared.values is not None or declared.monotone or declared.is_injective or declared.dtype.is_bool


class _Programs:
    """The programs of one product; names of their own differ from the user's."""

    def __init__(self, found: CsrProduct, lanes: int, window: int) -> None:
        self.found, self.lanes, self.window = found, lanes, window
        self.type = found.start.dtype
        self.taken = {
            *found.algorithm.params, *found.algorithm.inputs, *found.algorithm.computations, found.row, found.term
        }  # fmt: skip
        self.row, self.slice, self.lane, self.place = map(self._iterator, ("row", "slice", "lane", "place"))
        self.other, self.target = self._iterator("other"), self._iterator("target")
        self.slices, self.width = Param(self._name("S")), Param(self._name("W"))
        self.begin, self.order, self.length = map(self._name, ("begin", "order", "length"))

    def _name(self, wanted: str) -> str:
        name = unused_word(wanted, self.taken)
        self.taken.add(name)
        return name

    def _iterator(self, wanted: str) -> Iter:
        return Iter(self._name(wanted))

    def rows(self) -> Function:
        """The order of rows, their lengths in this order, and the first places of slices, from the starts of rows.

        A row comes after the longer rows of its window, and after those of the same length before it.
        """
        f = self._function("rows", [self.found.start])
        start, rows, kind = f[self.found.start.name], self.found.rows, self.type
        i, j, v, s, lane = self.row, self.other, self.target, self.slice, self.lane
        first = self.window * (i // self.window)
        own = f.computation(self._name("own"), {i: rows}, start[i + 1] - start[i])
        precedes = (own[j] > own[i]) | ((own[j] == own[i]) & (j < i))
        rank = f.reduction(
            self._name("rank"), {i: rows}, {j: (first, first + self.window)}, sum_, cast(kind, precedes), where=j < rows
        )
        position = f.computation(self._name("position"), {i: rows}, cast(kind, first) + rank[i])
        order = f.reduction(self.order, {v: rows}, {i: rows}, sum_, cast(kind, i), where=position[i] == v)
        length = f.reduction(self.length, {v: rows}, {i: rows}, sum_, own[i], where=position[i] == v)
        row = self.lanes * s + lane
        width = f.reduction(
            self._name("longest"), {s: self.slices}, {lane: self.lanes}, max_, length[row], where=row < rows
        )
        begin = f.computation(
            self.begin, {s: self.slices + 1},
            lambda begin: select(s == 0, Const(0, kind), begin[s - 1] + width[s - 1]),
        )  # fmt: skip
        f.outputs(order, length, begin)
        self._rank_in_vectors(position, rank)
        return f

    def _rank_in_vectors(self, position: Computation, rank: Reduction) -> None:
        """Compute the ranks of several rows in the lanes of vectors."""
        outer, inner = self._iterator("rows"), self._iterator("row_inside")
        position.split(self.row, RANKED, outer, inner)
        position.vectorize(inner, RANKED, remainder="mask")
        position.parallelize(outer)
        rank.compute_at(position, outer)
        rank.update.interchange(self.row, self.other)
        rank.vectorize(self.row, RANKED, remainder="mask")
        rank.store_in(Memory.REGISTER)

    def pack(self, entry: Declared) -> Function:
        """The elements of an input at the places of slices: the k-th entry of each row of a slice side by side.

        Places beyond the end of a row get an element of a later row, or the last one: all of them are elements of the
        input, for which its declared range holds.
        """
        f = self._function(f"pack_{entry.name}", [self.found.start, entry], entry.shape[0] >= self.width, self.width)
        rows, count, start = self.found.rows, self.found.count, f[self.found.start.name]
        order = f.input(self.order, self.type, [rows], values=(0, rows))
        begin = self._declared_begin(f)
        s, lane, k = self.slice, self.lane, self.place
        row = self.lanes * s + lane
        place = cast(int64, start[order[row]]) + (k - cast(int64, begin[s]))
        elements = f[entry.name]
        element = elements[minimum(maximum(place, 0), count - 1)]
        packed = f.computation(
            self._name(f"{entry.name}_at"), {s: self.slices, lane: self.lanes, k: (begin[s], begin[s + 1])},
            select(row < rows, element, elements[count - 1]),
        )  # fmt: skip
        packed.store_in(
            self._buffer(self._name(f"{entry.name}_packed"), (self.width, self.lanes), entry.dtype), [k, lane]
        )
        f.outputs(packed)
        packed.parallelize(s)
        return f

    def multiply(self) -> Function:
        """The product: each lane sums the entries of a row, and stores the sum at the row's place."""
        found, declared = self.found, self.found.declared
        f = Function(f"{found.algorithm.name}_sell", [*self._of_product(), self.slices, self.width], self._assumed())
        rows, r, k, v = found.rows, self.row, self.place, self.target
        begin = self._declared_begin(f)
        order = f.input(self.order, self.type, [rows], values=(0, rows), permutation=True)
        length = f.input(self.length, self.type, [rows])
        entries = {
            each.name: f.input(each.name, each.dtype, [self.width, self.lanes], values=each.values)
            for each in found.entries
        }
        for each in found.others:
            _declare(f, each)
        first = begin[r // self.lanes]
        total = f.reduction(
            self._name("total"), {r: rows}, {k: (first, begin[r // self.lanes + 1])}, _operator(declared),
            self._term(f, entries), where=k - first < length[r], dtype=declared.dtype,
        )  # fmt: skip
        y = f.computation(self._name(f"{declared.name}_of_row"), {r: rows, v: rows}, total[r], where=order[r] == v)
        y.store_in(self._buffer(declared.name, (rows,), declared.dtype), [v])
        f.outputs(y)
        self._schedule(y, total, begin, list(entries.values()))
        return f

    def _schedule(self, y: Computation, total: Reduction, begin: Input, entries: list[Input]) -> None:
        """A slice in a vector, its sums in registers; threads share the places."""
        y.split(self.row, self.lanes, self.slice, self.lane)
        y.vectorize(self.lane, self.lanes, remainder="mask")
        y.parallelize(self.slice, balance=begin)
        total.compute_at(y, self.slice)
        total.update.interchange(self.row, self.place)
        total.vectorize(self.row, self.lanes, remainder="mask")
        total.store_in(Memory.REGISTER)
        for entry in entries:
            total.update.prefetch(entry, self.place, AHEAD)

    def _term(self, f: Function, entries: Mapping[str, Input]) -> Expr:
        """The term of the declared product, of the elements at a place of a slice."""
        lane = self.row % self.lanes

        def changed(e: Expr) -> Expr | None:
            if isinstance(e, Access) and e.source in entries:
                return entries[e.source][self.place, lane]
            if isinstance(e, Access):
                indices = tuple(rewrite(index, changed) for index in e.indices)
                return Access(e.source, indices, e.dtype, f.owner)
            return None

        return rewrite(self.found.declared.expr, changed)

    # -- declarations

    def _function(self, name: str, inputs: list[Declared], also: Expr | None = None, *more: Param) -> Function:
        """A function of some of the user's inputs, with the parameters that they mention."""
        mentioned = _mentioned(extent for each in inputs for extent in _extents(each))
        params = [Param(name) for name in self.found.algorithm.params if name in mentioned]
        assume = self._slices_of_rows() if also is None else self._slices_of_rows() & also
        f = Function(f"{self.found.algorithm.name}_{name}", [*params, self.slices, *more], assume)
        for each in inputs:
            _declare(f, each)
        return f

    def _buffer(self, name: str, shape: tuple[Expr | int, ...], dtype: DType) -> Buffer:
        return Buffer(name, tuple(map(as_expr, shape)), dtype)

    def _of_product(self) -> list[Param]:
        """The user's parameters in the product: all if something is assumed of them, else those that it mentions."""
        found = self.found
        extents = [extent for each in found.others for extent in _extents(each)]
        bounds = [bound for each in found.entries for bound in each.values or ()]
        mentioned = _mentioned([found.declared.expr, found.rows, *extents, *bounds])
        kept = (name for name in found.algorithm.params if found.algorithm.assume is not None or name in mentioned)
        return [Param(name) for name in kept]

    def _declared_begin(self, f: Function) -> Input:
        return f.input(self.begin, self.type, [self.slices + 1], values=(0, self.width + 1), monotone=True)

    def _slices_of_rows(self) -> Expr:
        """There are as many slices as the rows need, and the number of a row is of the type of the starts."""
        rows, places = self.found.rows, self.lanes * self.slices
        return (places >= rows) & (places < rows + self.lanes) & (rows <= int(self.type.limits[1]))

    def _assumed(self) -> str | Expr:
        """The assumptions of the user, and the number of slices."""
        given, own = self.found.algorithm.assume, self._slices_of_rows()
        if isinstance(given, str):
            rows, places = self.found.rows, f"{self.lanes}*{self.slices}"
            limit = int(self.type.limits[1])
            return f"({given}) and {places} >= {rows} and {places} < {rows} + {self.lanes} and {rows} <= {limit}"
        return own if given is None else given & own


def _declare(f: Function, given: Declared) -> None:
    """The declaration of an input, with its facts."""
    if given.scalar:
        f.scalar(given.name, given.dtype)
        return
    f.input(
        given.name, given.dtype, given.shape, values=given.values, monotone=given.monotone,
        permutation=given.permutation, distinct=given.injective,
    )  # fmt: skip


def _mentioned(expressions: Iterable[Expr]) -> set[str]:
    """The parameters in expressions."""
    return {e.name for expression in expressions for e in walk(expression) if isinstance(e, Param)}


def _extents(given: Declared) -> tuple[Expr, ...]:
    return (*given.shape, *(given.values or ()))


def _operator(declared: Product) -> Operator:
    assert declared.op is not None
    return declared.op
