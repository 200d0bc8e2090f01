"""Boundary conditions: what a stencil reads beyond the ends of an array. Each makes an array without ends of one with.

::

    near = tm.boundary.repeat_edge(image)                   # every dimension
    near = tm.boundary.mirror_image(image, dims=[0, 1])     # rows and columns, not colours
    bx = f.computation("bx", {r: R, c: C}, near[r, c - 1] + near[r, c] + near[r, c + 1])

Of the elements a b c:

| condition | beyond the ends |
| --- | --- |
| `repeat_edge` | `a a a b c c c` |
| `repeat_image` | `b c a b c a b` |
| `mirror_image` | `b a a b c c b` |
| `mirror_interior` | `c b a b c b a` |
| `constant` | `v v a b c v v` |

Loops are cut where the condition begins to matter, so that the inside reads the array as it is. `repeat_image` and the
mirrors reach one length of the array beyond each end (`mirror_interior` one element less): where a size may be less
than what is read, `check` says which to assume.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tiramisu_py.algorithm.domains.boxes import ends_of_box, smallest_box
from tiramisu_py.algorithm.expressions import Const, Expr, Operand, as_expr, select
from tiramisu_py.algorithm.functions import clip
from tiramisu_py.algorithm.types import int64
from tiramisu_py.errors import DeclarationError
from tiramisu_py.function import Computation, Input
from tiramisu_py.public_calls import own_call_of
from tiramisu_py.records import dataclass

__all__ = ["constant", "mirror_image", "mirror_interior", "repeat_edge", "repeat_image"]

#: An index, the first index that exists, and the end, as the index that is read instead.
Inside = Callable[[Expr, Expr, Expr], Expr]


@dataclass(frozen=True)
class Extended:
    """An array that may be read beyond its ends, in some of its dimensions: `near[r - 1, c]` is one of its values."""

    source: Input | Computation
    dims: tuple[int, ...]
    inside: Inside
    outside: Operand | None = None

    def __getitem__(self, indices: Operand | tuple[Operand, ...]) -> Expr:
        given = [as_expr(index) for index in (indices if isinstance(indices, tuple) else (indices,))]
        ends = _ends(self.source)
        if len(given) != len(ends):
            return self.source[tuple(given)]  # raises the error that says how many indices there are
        at = [self.inside(x, *ends[d]) if d in self.dims else x for d, x in enumerate(given)]
        read = self.source[tuple(at)]
        if self.outside is None:
            return read
        for d in self.dims:
            low, end = ends[d]
            read = select((given[d] >= low) & (given[d] < end), read, self.outside)
        return read

    def __repr__(self) -> str:
        return f"{self.source} without ends"


@own_call_of("tm.boundary")
def repeat_edge(source: Input | Computation, dims: Sequence[int] | None = None) -> Extended:
    """The first and the last element, over and over: ``a a a b c c c``. `dims` are dimensions; all by default."""
    return _extended(source, dims, lambda x, low, end: clip(x, low, end - 1))


@own_call_of("tm.boundary")
def repeat_image(source: Input | Computation, dims: Sequence[int] | None = None) -> Extended:
    """The array again and again: ``b c a b c a b``."""
    return _extended(source, dims, lambda x, low, end: low + (x - low) % (end - low))


@own_call_of("tm.boundary")
def mirror_image(source: Input | Computation, dims: Sequence[int] | None = None) -> Extended:
    """The array mirrored at its ends, which occur twice: ``b a a b c c b``."""
    return _extended(source, dims, _mirrored)


@own_call_of("tm.boundary")
def mirror_interior(source: Input | Computation, dims: Sequence[int] | None = None) -> Extended:
    """The array mirrored at its first and its last element, which occur once: ``c b a b c b a``."""
    return _extended(source, dims, _mirrored_inside)


@own_call_of("tm.boundary")
def constant(source: Input | Computation, value: Operand, dims: Sequence[int] | None = None) -> Extended:
    """A value everywhere else: ``v v a b c v v``. It is converted to the type of the elements, as by `tm.select`."""
    made = _extended(source, dims, lambda x, low, end: x)
    return Extended(made.source, made.dims, made.inside, value)


def _mirrored(x: Expr, low: Expr, end: Expr) -> Expr:
    return select(x < low, 2 * low - 1 - x, select(x >= end, 2 * end - 1 - x, x))


def _mirrored_inside(x: Expr, low: Expr, end: Expr) -> Expr:
    return select(x < low, 2 * low - x, select(x >= end, 2 * end - 2 - x, x))


def _extended(source: Input | Computation, dims: Sequence[int] | None, inside: Inside) -> Extended:
    if not isinstance(source, Input | Computation):
        raise DeclarationError(f"{source!r} is no array: give an input or a computation")
    count = len(_ends(source))
    given = range(count) if dims is None else dims
    if not isinstance(given, Sequence) or any(isinstance(d, bool) or not isinstance(d, int) for d in given):
        raise DeclarationError(f"dims of {source} is {dims!r}: give numbers of dimensions, such as [0, 1]")
    chosen = tuple(d + count if d < 0 else d for d in given)
    if any(not 0 <= d < count for d in chosen) or len(set(chosen)) < len(chosen):
        raise DeclarationError(f"dims of {source} is {dims!r}: it has dimensions 0 to {count - 1}, each at most once")
    return Extended(source, chosen, inside)


def _ends(source: Input | Computation) -> list[tuple[Expr, Expr]]:
    """The first index and the end of each dimension."""
    algorithm = source._function.program.algorithm
    if isinstance(source, Input):
        return [(Const(0, int64), extent) for extent in algorithm.inputs[source.name].shape]
    values = algorithm.computations[source.name]
    if values.is_inferred:
        raise DeclarationError(
            f"the domain of {source} follows from what is read of it, so that it has no ends: give it a domain, or let "
            f"its own reads have the boundary condition"
        )
    domain = values.domain.intersect_params(algorithm.context)
    if values.guards or not smallest_box(domain).is_equal(domain):
        raise DeclarationError(f"{source} has values on no box, so that it has no ends in each dimension")
    return ends_of_box(domain, algorithm.context)
