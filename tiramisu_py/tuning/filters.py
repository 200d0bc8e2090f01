"""Named filters of input-aware tuning: cheap conditions on a point, or on a point and sizes, before any proof.

::

    from tiramisu_py.tuning import filters

    product = tm.input_aware(make, space, filters=[
        filters.instruction_cache("rows", "vectors", "unroll"),
        filters.programs({"M": "rows", "N": "lanes"}, splits="pieces"),
        filters.limit("registers", lambda rows, vectors, **_: (rows + 1) * vectors, most=30),
    ])

What a filter refuses is neither proven nor compiled, and is counted by the filter's name. The names of parameters and
sizes are the caller's, so each filter is told which of them mean what.

Source: Tillet, "Blocked Algorithms for Neural Networks", Harvard 2020, section 4.2.1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from tiramisu_py.errors import ArgumentError
from tiramisu_py.queries import allowed_cpus
from tiramisu_py.records import dataclass

Values = Mapping[str, Any]

#: The bytes of an instruction and of the instruction cache of a multiprocessor (Volta, Turing, Ampere).
INSTRUCTION, INSTRUCTION_CACHE = 16, 12 * 1024
#: The instructions of a copy of a thread from global to shared memory, and of a loop around, as nvcc makes them: fitted
#: to seven products of `scripts/bench tune --any-size` for sm_80; three of four others are within a quarter of them.
COPY, LOOP = 36, 110
#: The elements of a block at least: the threads of a warp.
WARP = 32
#: The share of the cores that must have a program.
BUSY = 0.5


@dataclass(frozen=True)
class Filter:
    """A condition with a name: ``allows(point, sizes)`` says whether a point may be tried.

    `parameters` are those that it reads, `sizes` the sizes; without sizes a point is judged once for all of them.
    """

    name: str
    allows: Callable[[Values, Values], bool]
    parameters: tuple[str, ...]
    sizes: tuple[str, ...] = ()


def loop_bytes(
    rows: int, columns: int, depth: int, *, wide: int = 1, copies: int = 0, instruction: int = INSTRUCTION
) -> int:
    """The bytes of an unrolled loop: `rows` x `depth` elements of one operand are loaded, `columns` x `depth` of the
    other, so many `wide` by each instruction, for `rows` x `columns` x `depth` multiply-adds.

    With `copies`, those that a thread makes from global to shared memory in an iteration, there are also the
    instructions of each, with its tests and addresses, and those of the loop itself.
    """
    loads = -(-rows * depth // wide) + -(-columns * depth // wide)
    around = LOOP + COPY * copies if copies else 0
    return instruction * (loads + rows * columns * depth + around)


def instruction_cache(
    rows: str,
    columns: str,
    depth: str,
    *,
    bytes: int = INSTRUCTION_CACHE,
    wide: int = 1,
    copies: Callable[..., int] | None = None,
    instruction: int = INSTRUCTION,
) -> Filter:
    """The unrolled loop fits into the instruction cache, as `loop_bytes` estimates it of these parameters.

    With ``wide=4`` a load is of four elements, as those of 128 bits are. `copies` is a function of all parameters,
    the number of copies that a thread makes in an iteration.
    """

    def fits(point: Values, sizes: Values) -> bool:
        made = 0 if copies is None else copies(**point)
        return bytes >= loop_bytes(
            point[rows], point[columns], point[depth], wide=wide, copies=made, instruction=instruction
        )

    return Filter("instruction cache", fits, (rows, columns, depth))


def only_powers_of_two(*names: str) -> Filter:
    """The values of these parameters are powers of two."""
    return Filter(
        "powers of two",
        lambda point, sizes: all(point[name] > 0 and point[name] & (point[name] - 1) == 0 for name in names),
        names,
    )


def elements(*names: str, least: int = WARP) -> Filter:
    """A block, whose extents are these parameters, has at least so many elements."""
    return Filter("elements", lambda point, sizes: math.prod(point[name] for name in names) >= least, names)


def programs(
    blocks: Mapping[str, str], *, splits: str | None = None, cores: int | None = None, share: float = BUSY
) -> Filter:
    """There are enough blocks for the cores: `blocks` has the parameter that cuts each size, `splits` the parameter
    that says into how many parts each sum is cut; at least a `share` of the `cores` (default: those of this process;
    for a GPU its multiprocessors) must have one.
    """
    available = len(allowed_cpus()) if cores is None else cores

    def enough(point: Values, sizes: Values) -> bool:
        count = math.prod(-(-sizes[size] // point[name]) for size, name in blocks.items())
        return bool(count * (point[splits] if splits else 1) > share * available)

    return Filter("programs", enough, (*blocks.values(), *([splits] if splits else [])), tuple(blocks))


def limit(name: str, amount: Callable[..., float], most: float) -> Filter:
    """An amount that follows from the point, ``amount(**parameters)``, is at most `most`: threads of a block, registers
    of a thread, bytes of shared memory or of a cache.

    ::

        filters.limit("threads", lambda rows, columns, **_: rows * columns, most=1024)
        filters.limit("cache", lambda terms, lanes, **_: 4 * terms * lanes, most=32 * 1024)
    """
    if not callable(amount):
        raise ArgumentError(f"limit {name}: amount is {amount!r:.60}: give a function of the parameters")
    return Filter(name, lambda point, sizes: amount(**point) <= most, ())


def checked_filters(given: object, parameters: Values) -> tuple[Filter, ...]:
    """The filters of a user; raises `ArgumentError` for what is none, and for one of other parameters."""
    if isinstance(given, Filter | str | Mapping) or not hasattr(given, "__iter__"):
        raise ArgumentError(f"filters={given!r:.60}: give a list of filters of tiramisu_py.tuning.filters")
    listed = tuple(given)
    for each in listed:
        if not isinstance(each, Filter):
            raise ArgumentError(f"filters has {each!r:.60}: make one with tiramisu_py.tuning.filters.limit(...)")
        for name in each.parameters:
            if name not in parameters:
                raise ArgumentError(f"filter {each.name} reads {name}, and the space has {', '.join(parameters)}")
    return listed


__all__ = ["Filter", "elements", "instruction_cache", "limit", "loop_bytes", "only_powers_of_two", "programs"]
