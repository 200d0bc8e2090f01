"""Statements of host and kernels alike: blocks, loops, guards, definitions, stores, arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.algorithm.operators import Operator
from tiramisu_py.algorithm.types import DType, TupleType
from tiramisu_py.ir.roles import Roles, roles
from tiramisu_py.program.loops import Combine, Tag
from tiramisu_py.program.machine.pages import Pages
from tiramisu_py.program.storage import Memory, Swizzle
from tiramisu_py.records import dataclass

if TYPE_CHECKING:
    from tiramisu_py.ir import Node


@dataclass(frozen=True, eq=False)
class Block:
    """Statements in sequence."""

    roles: ClassVar[Roles] = roles(inside="body")

    body: tuple[Node, ...]


@dataclass(frozen=True, eq=False)
class Comment:
    """A comment line of the generated code."""

    roles: ClassVar[Roles] = roles(data="text")

    text: str


@dataclass(frozen=True, eq=False)
class For:
    """``for (variable = lower; variable < upper; variable += step)``; `tag` says how iterations run.

    `reductions` are the buffers of which a parallel (or vector) loop keeps private copies, see `Private`. Loops of a
    bundle have its name, `joined`: their iterations are numbered together. A loop with `few` iterations is not worth a
    compiler's vectors: the test whether it fills one takes as long as the loop. One with the iterations that a vector
    loop has `left` is shorter than a vector. Iterations may begin at any element of arrays that it moves `along`, and
    do the same with the elements from there on.
    """

    roles: ClassVar[Roles] = roles(
        defines="variable", operands="lower upper", inside="body", data="step tag reductions joined few left along"
    )

    variable: str
    lower: Expr
    upper: Expr
    body: Node
    step: int = 1
    tag: Tag | None = None
    reductions: tuple[Private, ...] = ()
    joined: str = ""
    few: bool = False
    left: bool = False
    along: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Private:
    """A buffer that a loop's iterations only update with one operator: combined from private copies, or atomically.

    Of values with several components, which have a `dtype`, each is in a buffer of its own: those `beside` the first.
    """

    buffer: str
    operator: Operator
    combine: Combine
    dtype: TupleType | None = None
    beside: tuple[str, ...] = ()

    @property
    def buffers(self) -> tuple[str, ...]:
        """The buffers of all components."""
        return (self.buffer, *self.beside)


@dataclass(frozen=True, eq=False)
class If:
    """``if (condition) then else otherwise``.

    With `anywhere`, `then` is an update that may also run where the condition does not hold, if it then stores the
    element as it is: lanes of a vector that the condition excludes.
    """

    roles: ClassVar[Roles] = roles(operands="condition", inside="then otherwise", data="anywhere")

    condition: Expr
    then: Node
    otherwise: Node | None = None
    anywhere: bool = False


@dataclass(frozen=True, eq=False)
class Let:
    """``const dtype variable = value``, visible in `body`."""

    roles: ClassVar[Roles] = roles(defines="variable", operands="value", inside="body")

    variable: str
    value: Expr
    body: Node


@dataclass(frozen=True, eq=False)
class Declare:
    """``dtype variable = value``, visible in the rest of the block. With `lanes` > 1 it is a vector.

    `Assign` changes it, unless it is `constant`. No declared name hides another.
    """

    roles: ClassVar[Roles] = roles(names="variable", operands="value", data="lanes constant")

    variable: str
    value: Expr
    lanes: int = 1
    constant: bool = False


@dataclass(frozen=True, eq=False)
class Assign:
    """``variable = value``, of a variable of `Declare`. `statement` names its origin."""

    roles: ClassVar[Roles] = roles(names="variable", operands="value", data="statement")

    variable: str
    value: Expr
    statement: str


@dataclass(frozen=True, eq=False)
class Store:
    """``buffer[indices] = value``; with lanes, one element for each lane. `statement` names its origin.

    With `update`, the value already is ``update(buffer[indices], term)``; the operator is kept so that parallel
    loops can make the update atomic. In a kernel, `atomic` says that other threads or blocks update the same element.
    A `nontemporal` store bypasses the caches where that pays.
    """

    roles: ClassVar[Roles] = roles(names="buffer", operands="indices value", data="statement update atomic nontemporal")

    buffer: str
    indices: tuple[Expr, ...]
    value: Expr
    statement: str
    update: Operator | None = None
    atomic: bool = False
    nontemporal: bool = False


@dataclass(frozen=True, eq=False)
class Mask:
    """Vectors of `width` lanes of which only the first `count` touch memory: the last iterations of a vector loop.

    In the other lanes, loads in `body` give 0 and stores do nothing; the innermost mask applies. The count may be
    below 0 or above the width. A mask is no scope: variables declared in it are visible after it.
    """

    roles: ClassVar[Roles] = roles(operands="count", inside="body", data="width")

    count: Expr
    width: int
    body: Node


@dataclass(frozen=True, eq=False)
class Prefetch:
    """Prefetch the cache line of ``buffer[indices]``, an element that need not exist: nothing is read. `locality`
    (0 to 3) says how long it should stay.
    """

    roles: ClassVar[Roles] = roles(names="buffer", operands="indices", data="locality statement")

    buffer: str
    indices: tuple[Expr, ...]
    locality: int
    statement: str


@dataclass(frozen=True, eq=False)
class Allocate:
    """A buffer that exists during `body`. `lanes` > 1: each element is a vector (an additional index names a lane).
    In a `register`: named variables. `memory` and `device` say where it is: HOST, PINNED or HOST_MAPPED memory of the
    host, GPU memory of a device, SHARED memory of the block that runs the body (constant extents). With `pages` it
    is host memory in pages of its own, under this policy. The elements of a `ring` move along before all of them have
    values, so it starts as zeros. In a `padded` buffer, vectors may load elements without a value: lanes past the end
    of a loop, whose results are dropped. GPU memory that is `zeroed` is set to zero, on that operation sequence.
    With a `swizzle` of (rows, group), powers of two, element ``[r, c]`` is to be at ``[r, c ^ group * (r % rows)]``;
    of (rows, group, alike) at ``[r, c ^ group * (r // alike % rows)]``.
    """

    roles: ClassVar[Roles] = roles(
        names="buffer",
        operands="extents",
        inside="body",
        data="dtype register lanes memory device pages ring padded zeroed swizzle",
    )

    buffer: str
    extents: tuple[Expr, ...]
    dtype: DType
    body: Node
    register: bool = False
    lanes: int = 1
    memory: Memory = Memory.HOST
    device: int | None = None
    pages: Pages | None = None
    ring: bool = False
    padded: bool = False
    zeroed: int | None = None
    swizzle: Swizzle | None = None


# -- memory that arrays of the host's part have in turns. An `Allocate` is a scope; these lifetimes overlap in any way:
#
#        block m of the largest of a[N, M], c[N]:     MemoryBlock
#            begin a[N, M] in m                       BeginArray
#            ...                                      the statements that use a
#            end a                                    EndArray
#            begin c[N] in m                          what a had there is lost


@dataclass(frozen=True)
class ArrayRoom:
    """The room that an array needs: `extents` elements, each of `lanes` values of `dtype`."""

    roles: ClassVar[Roles] = roles(operands="extents", data="dtype lanes")

    extents: tuple[Expr, ...]
    dtype: DType
    lanes: int = 1


@dataclass(frozen=True, eq=False)
class MemoryBlock:
    """Memory that is known as `name` in `body`, of the size of the largest of `rooms`: of the host, or of a `device`.

    `arrays` are the arrays that have it in turns, in their order. A `lasting` block is allocated before the body, and
    freed after it; another one by the first `BeginArray` in it, and freed by an `EndArray` that says so, or else after
    the body. It is `padded` if one of the arrays is.
    """

    roles: ClassVar[Roles] = roles(names="name", operands="rooms", inside="body", data="arrays device lasting padded")

    name: str
    rooms: tuple[ArrayRoom, ...]
    arrays: tuple[str, ...]
    body: Node
    device: int | None = None
    lasting: bool = False
    padded: bool = False


@dataclass(frozen=True, eq=False)
class BeginArray:
    """From here on a block's memory is that of `buffer`, whose elements have no values yet; visible in the rest of the
    `Block`. The array that had the memory before is not used any more. `ring` and `padded` are those of `Allocate`.
    """

    roles: ClassVar[Roles] = roles(names="buffer block", operands="extents", data="dtype lanes device ring padded")

    buffer: str
    block: str
    extents: tuple[Expr, ...]
    dtype: DType
    lanes: int = 1
    device: int | None = None
    ring: bool = False
    padded: bool = False


@dataclass(frozen=True, eq=False)
class EndArray:
    """An array is not used any more, by nothing that still runs; with `frees`, its block has no memory from here on."""

    roles: ClassVar[Roles] = roles(names="buffer block", data="frees")

    buffer: str
    block: str
    frees: bool = False
