"""The checks at the entry of a generated function: sizes, pointers, overlap; and sizes that callers ask for."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import cgen

from tiramisu_py.algorithm.expressions import Binary, Const, Expr, Param, constant
from tiramisu_py.algorithm.traversal import walk
from tiramisu_py.backends.c import first_touch_calls as pages
from tiramisu_py.backends.c.definitions import Definition
from tiramisu_py.backends.c.expressions.scalars import Scalars
from tiramisu_py.backends.c.expressions.scope import Scope
from tiramisu_py.backends.c.part import HostParts
from tiramisu_py.ir import (
    ArrayArgument,
    ArrayCall,
    Copy,
    Deferred,
    For,
    Launch,
    LoadTile,
    LoopFunction,
    Node,
    Store,
    StoreTile,
    TreeReduce,
)
from tiramisu_py.ir import rewriting as transform
from tiramisu_py.ir.arithmetic.linear import LARGEST_SIZE, is_index

Lines = list[cgen.Generable]


def factors(extent: Expr) -> list[Expr]:
    """The factors of an extent: their product may be too large for the arithmetic of sizes, and is checked."""
    if isinstance(extent, Binary) and extent.op == "*":
        return [*factors(extent.left), *factors(extent.right)]
    return [extent]


def largest_size(function: LoopFunction) -> str:
    """The largest parameter that is accepted: index arithmetic on it, with the function's literals, fits in 64 bits."""
    bodies = [function.body, *(kernel.body for kernel in function.gpus.kernels)]
    parts = (e for body in bodies for e in _index_arithmetic(body))
    literals = [abs(e.value) for e in parts if isinstance(e, Const) and is_index(e.dtype)]
    limit = 2**62 // max([*literals, 1])
    return "TM_LARGEST" if limit >= LARGEST_SIZE else f"INT64_C({int(limit)})"


def _index_arithmetic(body: Node) -> Iterator[Expr]:
    seen = set[int]()
    for node in transform.walk(body):
        roots = [node.lower, node.upper] if isinstance(node, For) else []
        roots += node.indices if isinstance(node, Store | TreeReduce) else []
        roots += node.store.indices if isinstance(node, Deferred) else []
        whole = isinstance(node, Launch | Copy | ArrayCall | LoadTile | StoreTile)
        roots += transform.expressions(node) if whole else []
        loads = (load for e in transform.expressions(node) for load in transform.loads_in(e))
        roots += [index for load in loads for index in load.indices]
        for root in roots:
            if id(root) not in seen:
                seen.add(id(root))
                yield from walk(root)


class Checks:
    """The body of a function's check, which returns 0 or the error code that the function then returns."""

    def __init__(self, function: LoopFunction, name: str, scope: Scope, parts: HostParts) -> None:
        self.parts = parts
        self.function = function
        self.name = name
        self.scope = scope
        self.scalars = Scalars(scope)
        self.arrays = [a for a in function.arguments if isinstance(a, ArrayArgument)]
        self.largest = largest_size(function)

    def lines(self) -> Lines:
        """The checks, ordered so that each may rely on those before it."""
        sizes = [line for param in self.function.params for line in self._param(param)]
        return [
            cgen.Statement(f"{self.name}_error[0] = 0"),
            *self.parts.lines(lambda part: part.first_checks()),
            *sizes,
            *self._preconditions(),
            *self._nodes(),
            *self.parts.lines(lambda part: part.checks()),
            *[line for array in self.arrays for line in self._array(array)],
            *[self._overlap(a, b) for a, b in combinations(self.arrays, 2) if a.is_output or b.is_output],
            cgen.Statement("return 0"),
        ]

    def _param(self, param: str) -> Lines:
        c = self.scope.names[param]
        shown = f'{_words(param)} is %" PRId64 "'
        return [
            self._fail(f"{c} < 0", "TM_PRECONDITION", f"{shown}, but must be at least 0", c),
            self._fail(f"{c} > {self.largest}", "TM_SIZE", f"{shown}, which is too large", c),
        ]

    def _fail(self, condition: str, code: str, words: str, *values: str) -> cgen.Generable:
        arguments = "".join(f", {value}" for value in values)
        report = f'return {self.name}_fail({code}, "{self.function.title}: {words}"{arguments})'
        return cgen.If(cgen.Line(condition), cgen.Statement(report))

    def _preconditions(self) -> Lines:
        shown = ", ".join(f'{_words(param)} = %" PRId64 "' for param in self.function.params)
        values = [self.scope.names[param] for param in self.function.params]
        where = f" ({shown})" if shown else ""
        return [
            self._fail(f"!({self.scalars.text(test)})", "TM_PRECONDITION", f"needs {_words(words)}{where}", *values)
            for test, words in self.function.preconditions
        ]

    def _nodes(self) -> Lines:
        """The checks that each memory node with a temporary bound to it exists."""
        bound = pages.bound(self.function)
        if not bound:
            return []
        lines: Lines = [cgen.Statement("char tm_words[256]")]
        for buffer, node in bound:
            words = f"{_words(buffer)} is placed on memory node {node}, but for this process %s"
            missing = f"tm_no_node({node}, tm_words, sizeof tm_words)"
            lines.append(self._fail(f"{missing} != NULL", "TM_PRECONDITION", words, "tm_words"))
        return lines

    def _array(self, array: ArrayArgument) -> Lines:
        c, kind = self.scope.names[array.name], array.dtype.c_name
        sizes = ", ".join(self.scalars.text(size) for extent in array.extents for size in factors(extent))
        size = f"TM_BYTES({kind}, {sizes})" if sizes else f"sizeof({kind})"
        if array.strides:
            strides = ", ".join(self.scalars.text(stride) for stride in array.strides)
            size = f"TM_SPAN({kind}, ({sizes}), ({strides}))"
        name = _words(array.name)
        shared: Lines = []
        if array.strides and array.is_output:
            shared = [
                self._fail(
                    f"!TM_DISTINCT(({sizes}), ({strides}))", "TM_OVERLAP",
                    f"{name} is written, and has elements that share memory",
                )
            ]  # fmt: skip
        if _may_be_negative(array):
            shared.append(cgen.Statement(f"const int64_t {c}_before = TM_BEFORE({kind}, ({sizes}), ({strides}))"))
        faults = [fault for part in self.parts for fault in part.array_faults(array)]
        return [
            cgen.Statement(f"const int64_t {c}_bytes = {size}"),
            self._fail(f"{c}_bytes < 0", "TM_SIZE", f"{name} has more bytes than can be addressed"),
            self._fail(f"{c} == NULL && {c}_bytes > 0", "TM_NULL", f"{name} is NULL, but has elements"),
            *shared,
            *[self._fail(condition, "TM_PRECONDITION", f"{name} {words}") for condition, words in faults],
        ]

    def _overlap(self, a: ArrayArgument, b: ArrayArgument) -> cgen.Generable:
        written, other = (a, b) if a.is_output else (b, a)
        x, y = self.scope.names[written.name], self.scope.names[other.name]
        words = f"{_words(written.name)}, which is written, overlaps {_words(other.name)}"
        first, second = self._lowest(written), self._lowest(other)
        condition = f"tm_overlap({first}, {x}_bytes, {second}, {y}_bytes)"
        if written.strides or other.strides:
            condition += f" && !tm_interleaved({self._spread(written)}, {self._spread(other)})"
        return self._fail(condition, "TM_OVERLAP", words)

    def _spread(self, array: ArrayArgument) -> str:
        """An array with the distances of its elements, as `tm_interleaved` takes it."""
        c = self.scope.names[array.name]
        sizes, strides = f"{c}_bytes / (int64_t)sizeof({array.dtype.c_name})", "1"
        if array.strides:
            sizes = ", ".join(self.scalars.text(extent) for extent in array.extents)
            strides = ", ".join(self.scalars.text(stride) for stride in array.strides)
        return f"TM_SPREAD({self._lowest(array)}, {array.dtype.c_name}, ({sizes}), ({strides}))"

    def _lowest(self, array: ArrayArgument) -> str:
        """The address of the lowest element."""
        c = self.scope.names[array.name]
        return f"(const char *){c} - {c}_before" if _may_be_negative(array) else c


def _may_be_negative(array: ArrayArgument) -> bool:
    """Whether a stride of an array may be negative: parameters are not."""
    sizes = [(stride, constant(stride)) for stride in array.strides or ()]
    return any(value < 0 if value is not None else not isinstance(stride, Param) for stride, value in sizes)


# -- the sizes of packed arrays


def declared_sizes(function: LoopFunction, scope: Scope) -> Lines:
    """The declarations of the functions that tell callers how large the arrays are that a function packs."""
    lines: Lines = []
    for array in _packed(function):
        said = (
            f"The bytes of {array.name}, an array for {function.companions.packs_for}; -1 where no memory has as many."
        )
        lines += [cgen.LineComment(said), cgen.Statement(_size_function(function, scope, array)), cgen.Line()]
    return lines


def defined_sizes(function: LoopFunction, scope: Scope) -> Lines:
    """The definitions of these functions."""
    lines: Lines = []
    for array in _packed(function):
        extents = ", ".join(Scalars(scope).text(extent) for extent in array.extents)
        largest = largest_size(function)
        bad = " || ".join(f"{c} < 0 || {c} > {largest}" for c in (scope.names[param] for param in function.params))
        body: Lines = [cgen.If(cgen.Line(bad), cgen.Statement("return -1"))] if bad else []
        body.append(cgen.Statement(f"return TM_BYTES({array.dtype.c_name}, {extents})"))
        lines += [Definition(_size_function(function, scope, array), cgen.Block(body)), cgen.Line()]
    return lines


def _packed(function: LoopFunction) -> list[ArrayArgument]:
    arrays = (argument for argument in function.arguments if isinstance(argument, ArrayArgument))
    return [array for array in arrays if array.is_output] if function.companions.packs_for else []


def _size_function(function: LoopFunction, scope: Scope, array: ArrayArgument) -> str:
    params = ", ".join(f"int64_t {scope.names[param]}" for param in function.params) or "void"
    return f"int64_t {function.companions.packs_for}_{array.name}_bytes({params})"


def _words(text: str) -> str:
    """Text, escaped for a format string in C."""
    return " ".join(text.split()).replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
