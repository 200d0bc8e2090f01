"""Where values are kept: buffers, and the maps from values to their elements."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.domains.from_isl import of_params
from tiramisu_py.algorithm.expressions import Const, Expr, as_expr
from tiramisu_py.algorithm.names import check_name
from tiramisu_py.algorithm.types import DType, as_dtype
from tiramisu_py.errors import DeclarationError
from tiramisu_py.program.loops import LoopId
from tiramisu_py.program.machine.pages import Pages
from tiramisu_py.public_calls import own_class
from tiramisu_py.records import dataclass


class Memory(Enum):
    """Kinds of memory.

    HOST: ordinary memory; a buffer has one instance on the host, and one on each GPU that uses it, as large as the box
    of elements that this GPU uses. PINNED: the same, but the host's instance is page-locked, so that the GPU copies it
    without staging, and beside other work. HOST_MAPPED: page-locked, and one instance for all: GPUs address the host's
    memory (zero-copy). GPU: on GPUs only. SHARED: on the chip, one copy for each block of threads. A REGISTER buffer
    has constant extents; once loops are unrolled, constants alone index it. FILE: in a file, which transfers alone
    read and write.
    """

    HOST = "host"
    PINNED = "pinned"
    HOST_MAPPED = "host_mapped"
    GPU = "gpu"
    SHARED = "shared"
    REGISTER = "register"
    FILE = "file"

    def __repr__(self) -> str:
        return self.word

    @property
    def word(self) -> str:
        """The name of the constant: ``GPU_MEMORY`` of ``tm.GPU_MEMORY``, beside ``tm.gpu``, which runs loops there."""
        return "GPU_MEMORY" if self is Memory.GPU else self.name


def as_memory(given: Memory | str) -> Memory:
    """The memory given as ``tm.SHARED`` or as "shared". Raises `DeclarationError` for anything else."""
    if isinstance(given, Memory):
        return given
    names = [memory.value for memory in Memory]
    if given not in names:
        raise DeclarationError(f"{given!r} is not a memory: choose one of {', '.join(names)}")
    return Memory(given)


#: How rows of shared memory are turned: (rows, group), or (rows, group, alike).
Swizzle = tuple[int, int] | tuple[int, int, int]


@own_class
@dataclass(frozen=True, eq=False)
class Buffer:
    """An array: its extents (affine in the parameters), its scalar type, its memory and its scope.

    ``tm.Buffer("two", [2, C], tm.float32)`` is for `store_in`. The buffer has one copy for each iteration of the loops
    in `scope`; it is empty for one copy a call. `argument` says that the caller passes the array; `device` is then its
    place: a GPU by its number, None for the host. `pages` is the policy of a temporary's memory, if it was given one. A
    register buffer that is `per_thread` exists once in each thread of a block, whatever threads run the loops of its
    scope. An array of the caller may have `strides`: the distances of neighbours in each dimension, in elements,
    ``tm.Buffer("part", [N, M], tm.float32, strides=[S, 1])``. One whose extents are products has them as `passed`; each
    factor is one of `extents`. In a buffer of shared memory with a `swizzle` of (rows, group), groups of so many
    elements of a row change places with each other, in each of so many rows in another way; of (rows, group, alike), so
    many neighbouring rows in one way.
    """

    name: str
    extents: tuple[Expr, ...]
    dtype: DType
    memory: Memory = Memory.HOST
    scope: tuple[LoopId, ...] = ()
    argument: bool = False
    device: int | None = None
    pages: Pages | None = None
    per_thread: bool = False
    strides: tuple[Expr, ...] | None = None
    passed: tuple[Expr, ...] | None = None
    swizzle: Swizzle | None = None

    @property
    def passed_extents(self) -> tuple[Expr, ...]:
        """The extents of the array that callers in Python pass."""
        return self.extents if self.passed is None else self.passed

    def __post_init__(self) -> None:
        check_name(self.name, "a buffer")
        if isinstance(self.extents, int | Expr | str):
            raise DeclarationError(f"the extents of buffer {self.name} are a list, not {self.extents!r}")
        extents = tuple(as_expr(extent) for extent in self.extents)
        for extent in extents:
            if not extent.dtype.is_integer:
                raise DeclarationError(f"the extent {extent} of buffer {self.name} is not an integer")
            if isinstance(extent, Const) and extent.value < 0:
                raise DeclarationError(f"the extent {extent} of buffer {self.name} is negative")
        object.__setattr__(self, "extents", extents)
        if self.strides is not None:
            object.__setattr__(self, "strides", _as_strides(self.name, self.strides, len(extents)))
        object.__setattr__(self, "dtype", as_dtype(self.dtype))
        object.__setattr__(self, "memory", as_memory(self.memory))


def _as_strides(name: str, given: object, rank: int) -> tuple[Expr, ...]:
    """The strides of a buffer as expressions."""
    if not isinstance(given, list | tuple) or len(given) != rank:
        raise DeclarationError(
            f"strides= of buffer {name} is {given!r}; write the distance of neighbours in each of its {rank} "
            "dimensions, in elements, such as [S, 1]"
        )
    found = tuple(as_expr(stride) for stride in given)
    for stride in found:
        if not stride.dtype.is_integer:
            raise DeclarationError(f"the stride {stride} of buffer {name} is not an integer")
    return found


@dataclass(frozen=True, eq=False)
class Storage:
    """A place for the values of one source (a computation or an input).

    `index` maps ``[coordinates of the frame..., value indices...]`` to the element of `buffer`; the place of a value is
    the coordinates of the buffer's scope, the buffer and that element. The frame is the buffer's scope and then the
    loops `inner`, which lie just inside it and in each iteration of which the elements are reused (a tile in shared
    memory that a loop inside the kernel fills anew). `chosen` says that the user placed the values (with `store_in` or
    `store_at`), so that `compute_at` leaves them there. `words` says in messages what the buffer is if the user has not
    declared it.
    """

    name: str
    source: str
    buffer: str
    index: isl.MultiAff
    chosen: bool = False
    inner: tuple[LoopId, ...] = ()
    words: str = ""


def first_value(storage: Storage, context: isl.Set) -> tuple[Expr, ...] | None:
    """The indices of the value in element 0 of an array, if the others follow it in each dimension; None if not."""
    space = storage.index.get_domain_space()
    forms = sets.outputs(storage.index)
    variables = sets.variables(space)
    if len(forms) != len(variables):
        return None
    lows = [variable.sub(form) for variable, form in zip(variables, forms, strict=True)]
    if not all(map(sets.is_of_parameters, lows)):
        return None
    return tuple(of_params(low.to_pw_aff().project_domain_on_params(), context) for low in lows)


def array_begin(storage: Storage, context: isl.Set) -> str:
    """Where an array begins, ``s[-1, -2]``; "" where that is index 0, or where values lie in another order."""
    lows = first_value(storage, context)
    if lows is None or all(isinstance(low, Const) and low.value == 0 for low in lows):
        return ""
    return f"{storage.source}[{', '.join(map(str, lows))}]"


class Home(NamedTuple):
    """An instance of a buffer: on a GPU by its number, or (None) on the host, or the only instance.

    Its text, ``image`` or ``image@gpu0``, names the tuple of its places.
    """

    buffer: str
    device: int | None

    def __str__(self) -> str:
        return self.buffer if self.device is None else f"{self.buffer}@gpu{self.device}"


def is_on_devices(buffer: Buffer) -> bool:
    """Whether a buffer has an instance for each device that uses it; otherwise there is only one for all."""
    return buffer.memory not in (Memory.HOST_MAPPED, Memory.SHARED, Memory.REGISTER, Memory.FILE)


def home_of(buffer: Buffer, device: int | None) -> Home:
    """The instance of a buffer that a device uses: one for each device, unless there is only one for all."""
    return Home(buffer.name, device if is_on_devices(buffer) else None)
