"""Non-temporal stores in C: their alignment, how a call chooses a version, and where threads wait for them.

The body is printed once and compiled in two versions, with a constant that says whether stores bypass the caches. A
distributed function, or one that uses GPUs, has a single body, in which that is a variable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

import cgen

from tiramisu_py.algorithm.expressions import Binary, Expr, Iter, constant
from tiramisu_py.algorithm.stacks import deep_nest
from tiramisu_py.algorithm.traversal import rewrite
from tiramisu_py.algorithm.traversal import walk as parts
from tiramisu_py.algorithm.types import int64
from tiramisu_py.backends.c.expressions.parentheses import PRODUCT, SUM, call
from tiramisu_py.backends.c.expressions.scalars import Scalars
from tiramisu_py.backends.c.expressions.scope import NamedArray, Scope
from tiramisu_py.backends.c.runtime_files import RuntimeFile, packaged
from tiramisu_py.backends.c.vectors.stores import WholeStore
from tiramisu_py.ir import (
    AllReduce,
    ArrayArgument,
    ArrayCall,
    Collective,
    Complete,
    Copy,
    For,
    Launch,
    Let,
    LoopFunction,
    Node,
    Post,
    Prefetch,
    Ramp,
    Store,
)
from tiramisu_py.ir.arithmetic.linear import along_lanes, is_index, linear, number
from tiramisu_py.ir.arithmetic.simplify import simplified
from tiramisu_py.ir.rewriting import NONTEMPORAL, children, contents, names, of_kind, walk
from tiramisu_py.passes import as_usual, line_starts, side_by_side
from tiramisu_py.program.loops import Parallel
from tiramisu_py.program.machine.instruction_costs import LINE
from tiramisu_py.records import dataclass

RUNTIME = "tm_stores.h"
#: The constant, or variable, that says whether stores bypass the caches.
STREAMS = "tm_streams"
#: How many elements come before the first cache line of an array.
BEFORE = "tm_before_line"
#: Vectors are aligned to their size, up to MOST bytes, or to `LEAST`; smaller ones than `LEAST` are stored as usual.
MOST, LEAST = 64, 16
#: The nodes that let GPUs, other ranks and C functions read values that this thread has stored.
_READERS = (AllReduce, ArrayCall, Collective, Complete, Copy, Launch, Post)


def uses_streams(node: Node) -> bool:
    """Whether a node contains a non-temporal store of a whole vector."""
    return NONTEMPORAL in contents(node) and any(map(is_stream, of_kind(node, Store)))


def is_stream(node: Store) -> bool:
    """Whether a store is a non-temporal store of a whole vector."""
    vector = _vector(node)
    return vector is not None and vector[1] * node.value.dtype.bytes >= LEAST


def _vector(node: Store) -> tuple[Expr, int] | None:
    """The last index in lane 0 and the number of lanes, for a non-temporal store of consecutive elements."""
    if not node.nontemporal or not node.indices or any(map(_lanes, node.indices[:-1])):
        return None
    line, lanes = along_lanes(node.indices[-1]), _lanes(node.indices[-1])
    return (line[0], lanes) if line is not None and line[1] == 1 and lanes > 1 else None


def _lanes(index: Expr) -> int:
    return max((part.lanes for part in parts(index) if isinstance(part, Ramp)), default=0)


def runtime(function: LoopFunction) -> tuple[RuntimeFile, ...]:
    """The header for a function with such stores or with prefetches."""
    bodies = [function.body, *(version.function.body for version in function.companions.versions)]
    if not any(uses_streams(body) or Prefetch in contents(body) for body in bodies):
        return ()
    return packaged("c", RUNTIME)


class Stream(cgen.Statement):
    """A non-temporal store."""


class _Arrived(cgen.Statement):
    """A wait of a thread for its non-temporal stores."""


class _Asked(cgen.Statement):
    """A prefetch."""


def past_caches(node: Store, alignment: Alignment) -> WholeStore | None:
    """How a whole vector is stored past the caches; None for other stores."""
    if not is_stream(node):
        return None
    known = "TM_STREAM_PARTS" if node in alignment.parts else "TM_STREAM"
    name = known if alignment.is_known(node) else "TM_STREAM_ALIGNED"
    return lambda kind, pointer, value: Stream(call(name, kind, STREAMS, pointer, value).text)


def arrived() -> list[cgen.Generable]:
    """The wait of a thread until its non-temporal stores are in memory."""
    return [_Arrived(f"TM_STREAMED({STREAMS})")]


def waiting_once(lines: list[cgen.Generable]) -> list[cgen.Generable]:
    """The lines of a block, with a single wait after consecutive stores."""
    kept: list[cgen.Generable] = []
    followed = False
    for line in reversed(lines):
        if isinstance(line, _Arrived) and followed:
            continue
        followed = isinstance(line, _Arrived) or (followed and isinstance(line, Stream | cgen.LineComment))
        kept.append(line)
    return kept[::-1]


def prefetching_once(lines: list[cgen.Generable]) -> list[cgen.Generable]:
    """The lines of a block, each place prefetched once: unrolled iterations that overlap ask for the same rows."""
    asked: set[str] = set()
    kept: list[cgen.Generable] = []
    for line in lines:
        if isinstance(line, _Asked):
            if line.text in asked:
                continue
            asked.add(line.text)
        kept.append(line)
    return kept


def is_outermost(node: For, scope: Scope) -> bool:
    """Whether a serial loop is a thread's outermost loop with non-temporal stores, and so waits at its end.

    A loop that hands stored values to GPUs, ranks or threads waits earlier, at the ends of its inner loops.
    """
    if scope.threaded or scope.streaming or not uses_streams(node):
        return False
    return not any(_is_parallel(inner) or isinstance(inner, _READERS) for inner in walk(node))


def _is_parallel(node: Node) -> bool:
    return isinstance(node, For) and isinstance(node.tag, Parallel)


def ends_of_rows(nodes: Iterable[Node], scope: Scope) -> frozenset[int]:
    """The identities of those prefetches in a sequence after which no other one goes on along the same row: none in the
    sequence, and none in the next iteration of the loop around it.
    """
    rows: dict[tuple[object, ...], tuple[int, int]] = {}
    for node in nodes:
        if isinstance(node, Prefetch) and node.buffer in scope.arrays:
            lines = [along_lanes(index) for index in node.indices]
            first = [base for line in lines if line is not None for base in line[:1]]
            if 0 < len(first) == len(lines) and scope.innermost not in linear(first[-1]).iterators:
                place = linear(scope.arrays[node.buffer].flat(tuple(first)))
                row = (node.buffer, frozenset((key, factor) for key, (_, factor) in place.terms.items()))
                if row not in rows or place.constant > rows[row][0]:  # of two that are one place, the first
                    rows[row] = (place.constant, id(node))
    return frozenset(identity for _, identity in rows.values())


def prefetched(node: Prefetch, scope: Scope) -> list[cgen.Generable]:
    """Prefetches of the cache lines that an access touches, one for each line; at the end of a row, of the line of
    its last element, too, which is another one where rows begin anywhere.
    """
    array = scope.arrays.get(node.buffer)
    if array is None or array.nested or array.lanes > 1:
        return []  # in registers, or on the stack
    lines = [along_lanes(index) for index in node.indices]
    known = [line for line in lines if line is not None]
    if len(known) < len(lines):
        return _prefetched_first(node, scope)
    scalars = Scalars(scope)
    first = array.flat(tuple(base for base, _ in known))
    step = constant(array.distance(tuple(step for _, step in known))) or 0
    lanes = max(map(scope.lanes.of, node.indices), default=1)
    count = max(1, -(-(lanes * step * array.dtype.bytes) // LINE))
    elements = LINE // array.dtype.bytes
    apart = [k * elements for k in range(count)]
    if id(node) in scope.row_ends and lanes * step > 1:
        apart.append(lanes * step - 1)
    places = [first if k == 0 else simplified(Binary("+", first, number(k), int64)) for k in apart]
    found = (call("TM_PREFETCH", array.name, scalars.text(place), str(node.locality)).text for place in places)
    return [_Asked(text) for text in found]


def _prefetched_first(node: Prefetch, scope: Scope) -> list[cgen.Generable]:
    """A prefetch of lane 0's cache line, for lanes that are not evenly spaced."""
    first = tuple(rewrite(index, lambda e: e.base if isinstance(e, Ramp) else None) for index in node.indices)
    if any(scope.lanes.of(index) > 1 for index in first):
        return []  # indices made of vectors already
    scalars, array = Scalars(scope), scope.arrays[node.buffer]
    place = scalars.text(array.flat(first))
    return [_Asked(call("TM_PREFETCH", array.name, place, str(node.locality)).text)]


def from_a_line(node: For, scope: Scope, loop: Callable[[For, Scope], cgen.Generable]) -> list[cgen.Generable]:
    """A loop from the first cache line on, over arrays that begin there; then its first and its last iteration as they
    were, stored as usual. Where arrays begin at a line these are none.
    """
    stored = next(each.buffer for each in walk(node.body) if isinstance(each, Store) and is_stream(each))
    inside = scope.inner()
    lines: list[cgen.Generable] = [
        cgen.LineComment(f"from the first cache line of {stored} on; the two ends of a row as usual"),
        cgen.Statement(f"const int64_t {BEFORE} = TM_BEFORE_LINE({STREAMS}, {scope.arrays[stored].name})"),
    ]
    for name in node.along:
        array = scope.arrays[name]
        moved = f"tm_{array.name}"
        constant_ = "" if name == stored else "const "
        lines.append(cgen.Statement(f"{constant_}{array.dtype.c_name} *const {moved} = {array.name} + {BEFORE}"))
        inside.arrays[name] = replace(array, name=moved)
    text, name = Scalars(scope).text, scope.names[node.variable]
    whole = loop(node, inside)
    ends = loop(replace(node, body=as_usual(node.body)), scope.inner())
    assert isinstance(whole, cgen.For)
    assert isinstance(ends, cgen.For)
    last = Scalars(scope)(node.upper).at(SUM)
    whole.condition = cgen.Line(f"{name} < {last} - ({BEFORE} > 0)")
    ends.condition = cgen.Line(f"{BEFORE} > 0 && {text(Binary('<', Iter(node.variable, int64), node.upper, int64))}")
    ends.update = cgen.Line(f"{name} += {name} < {last} - 1 ? {last} - 1 - {name} : 1")
    return [cgen.Block([*lines, whole, ends])]


# -- which addresses are aligned


@dataclass(frozen=True)
class Residue:
    """A known remainder: the number is congruent to `rest` modulo `modulus`."""

    modulus: int
    rest: int


@dataclass(frozen=True)
class Aligned:
    """A condition on a caller's array that aligns stores to `size` bytes: element `offset` is aligned, and with `rows`
    the row size is a multiple of `size`. Loops that begin `anywhere` begin at a line of the first row.
    """

    array: str
    offset: int
    size: int
    rows: bool
    anywhere: bool = False


class Alignment:
    """The known alignment of a function's non-temporal stores, and the conditions for it.

    Stores that fill cache lines one after another, `parts`, are made at any multiple of 16 bytes; others that are parts
    of whole lines begin with these, at `starts`. Stores in loops that begin `anywhere` are at the lines of an array;
    other stores to the same array have no part in the choice.
    """

    def __init__(self, function: LoopFunction) -> None:
        own = (a for a in function.arguments if isinstance(a, ArrayArgument) and a.device is None)
        self.arrays = {argument.name: argument for argument in own}
        self.conditions: dict[Aligned, None] = {}
        self.checked: set[Store] = set()
        self.parts: set[Store] = set()
        self.starts: dict[Store, Store] = {}
        loops = [loop for loop in of_kind(function.body, For) if self.begins_anywhere(loop)]
        self.anywhere = {store for loop in loops for store in of_kind(loop.body, Store) if is_stream(store)}
        self.begun = {store.buffer for store in self.anywhere}
        self._visit(function.body, {})

    def is_known(self, node: Store) -> bool:
        """Whether a store is aligned if all `conditions` hold."""
        return node in self.checked

    def begins_anywhere(self, loop: For) -> bool:
        """Whether a loop is to begin at a cache line of the array that it stores to: all that it moves along are the
        caller's.
        """
        given = [self.arrays.get(name) for name in loop.along]
        return bool(given) and all(each is not None and each.strides is None for each in given)

    @deep_nest
    def _visit(self, node: Node, known: Mapping[str, Residue]) -> None:
        if isinstance(node, Store) and is_stream(node):
            self._store(node, known)
        if isinstance(node, For):
            self.parts.update(side_by_side(node))
            self.starts.update(line_starts(node))
        if isinstance(node, For | Let):
            kept = {name: residue for name, residue in known.items() if name != node.variable}
            found = _of_loop(node, known) if isinstance(node, For) else _of_value(node.value, known)
            known = kept if found is None else {**kept, node.variable: found}
        for child in children(node):
            self._visit(child, known)

    def _store(self, node: Store, known: Mapping[str, Residue]) -> None:
        in_parts, anywhere = node in self.parts, node in self.anywhere
        if node.buffer in self.begun and not anywhere and not in_parts:
            return  # arrays begin anywhere: each of these few looks at its own address
        start = node if in_parts else self.starts.get(node, node)
        argument, vector = self.arrays.get(node.buffer), _vector(start)
        if argument is None or vector is None:
            return
        whole = LINE if node in self.starts else vector[1] * argument.dtype.bytes
        size = LEAST if in_parts else min(whole, MOST)
        offset = _residue(vector[0], size // argument.dtype.bytes, known)
        if offset is not None:
            self.conditions[Aligned(node.buffer, offset, size, len(node.indices) > 1, anywhere)] = None
            self.checked.add(node)


def _of_loop(node: For, known: Mapping[str, Residue]) -> Residue | None:
    low = _residue(node.lower, node.step, known)
    return None if low is None else Residue(node.step, low)


def _of_value(e: Expr, known: Mapping[str, Residue]) -> Residue | None:
    for modulus in (64, 32, 16, 8, 4, 2) if is_index(e.dtype) else ():
        rest = _residue(e, modulus, known)
        if rest is not None:
            return Residue(modulus, rest)
    return None


def _residue(e: Expr, modulus: int, known: Mapping[str, Residue]) -> int | None:
    """The remainder of an index expression modulo a number, or None if it is not known."""
    form = linear(e)
    total = form.constant
    for atom, factor in form.terms.values():
        residue = known.get(atom.name) if isinstance(atom, Iter) else None
        if residue is not None and factor * residue.modulus % modulus == 0:
            total += factor * residue.rest
        elif factor % modulus != 0:
            return None
    return total % modulus


# -- the choice


def chooses(function: LoopFunction, scope: Scope, alignment: Alignment) -> str:
    """The condition in C under which a call uses non-temporal stores."""
    scalars = Scalars(scope)
    bound = (
        "TM_CACHED" if function.options.nontemporal_above is None else f"INT64_C({function.options.nontemporal_above})"
    )
    used = names(function.body)
    arrays = [scope.arrays[name] for name in alignment.arrays if name in used]
    held = " + ".join(_bytes(array, scalars) for array in arrays) or "INT64_C(0)"
    fitting = [part for condition in alignment.conditions for part in _fits(condition, scope, scalars)]
    return " && ".join(dict.fromkeys([f"{held} > {bound}", *fitting]))


def _bytes(array: NamedArray, scalars: Scalars) -> str:
    sizes = ", ".join(scalars.text(extent) for extent in array.extents)
    return f"TM_BYTES({array.dtype.c_name}, {sizes})" if sizes else f"(int64_t)sizeof({array.dtype.c_name})"


def _fits(condition: Aligned, scope: Scope, scalars: Scalars) -> Iterator[str]:
    array = scope.arrays[condition.array]
    offset, size = condition.offset * array.dtype.bytes, condition.size
    address = f"(uintptr_t){array.name}"
    aligned = array.dtype.bytes if condition.anywhere else size
    yield f"({address} + {offset}) % {aligned} == 0" if offset else f"{address} % {aligned} == 0"
    row = array.extents[-1]
    known = constant(row)
    elements = size // array.dtype.bytes
    if condition.rows and (known is None or known % elements != 0):
        yield f"{scalars(row).at(PRODUCT)} % {elements} == 0"
