"""The sizes of a picture: as large as can be seen, unless the user gives them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.domains.extents_from_arguments import shape_value
from tiramisu_py.counting.lattice_points import count
from tiramisu_py.dependence.access import MemoryAccess
from tiramisu_py.dependence.accesses import MemoryAccesses
from tiramisu_py.errors import ArgumentError
from tiramisu_py.program.program import Program
from tiramisu_py.sets.smallest import smallest_params

#: Sizes that are tried, for all parameters at once.
TRIED = (0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32, 48, 64)
#: The largest size that is chosen, where the function is defined for no smaller one.
LARGEST = 1 << 20
#: The instances and reads of a picture with automatic sizes, and those of the largest picture.
MOST_CHOSEN, MOST = 3_000, 40_000


def chosen_sizes(accesses: MemoryAccesses, given: Mapping[str, int]) -> dict[str, int]:
    """All sizes: those that are given, the others as large as a picture is still easy to see.

    Raises `ArgumentError` for sizes for which the function is not defined, or that are too large to be drawn.
    """
    program = accesses.program
    names = program.algorithm.params
    _check(program, given)
    free = [name for name in names if name not in given]
    if not free:
        sizes = {name: int(given[name]) for name in names}
        if sets.fixed(program.context, sizes).is_empty():
            raise ArgumentError(f"{program.algorithm.name} is not defined for {_words(sizes)}")
        if amount(accesses, sizes) > MOST:
            raise _too_many(program, sizes)
        return sizes
    best = _at_least(program, given, 0)
    if best is None:
        raise ArgumentError(f"{program.algorithm.name} is not defined for {_words(given)}")
    seen = 0
    for size in TRIED:
        found = _at_least(program, given, size)
        if found is None:
            break
        instances = amount(accesses, found)
        if instances > (MOST_CHOSEN if seen else MOST):  # a block of a kernel is whole, or not there
            if not seen:
                raise _too_many(program, found)
            break
        best, seen = found, instances
    return chosen_sizes(accesses, _with_more_running(program, best, free))


def _too_many(program: Program, sizes: Mapping[str, int]) -> ArgumentError:
    smaller = {name: _smaller(value) for name, value in sizes.items()}
    instead = (
        "give smaller sizes, such as " + ", ".join(f"{name}={value}" for name, value in smaller.items())
        if smaller != dict(sizes)
        else "make the extents that are constants smaller for a picture, as those of a kernel's blocks"
    )
    return ArgumentError(
        f"a picture of {program.algorithm.name} at {_words(sizes)} cannot be seen: it has more than {MOST} instances "
        f"and reads; {instead}"
    )


def amount(accesses: MemoryAccesses, sizes: Mapping[str, int]) -> int:
    """The number of instances and of reads at given sizes."""
    program, total = accesses.program, 0
    for statement in program.statements.values():
        total += count(sets.fixed(statement.instances.intersect_params(program.context.params()), sizes))
        for source in accesses.sources(statement) if statement.acts else ():
            read = accesses.read(statement, source)
            total += 0 if read is None else count(accessed(read, sizes))
    return total


def accessed(access: MemoryAccess, sizes: Mapping[str, int]) -> isl.Set:
    """The domain of an access at given sizes; of an index that values leave open, only what is inside of the array."""
    domain = sets.fixed(access.domain, sizes)
    if domain.is_bounded():
        return domain
    inside, extents = access.domain, shape_value(access.buffer.extents, sizes)
    for form, extent in zip(sets.outputs(access.place)[access.owners :], extents, strict=True):
        inside = inside.intersect(sets.within(form, 0, extent))
    return sets.fixed(inside, sizes)


def _with_more_running(program: Program, sizes: dict[str, int], free: Sequence[str]) -> dict[str, int]:
    """These sizes, some of them halved if more statements have instances then: at ``G = R`` all rows are before G."""
    for name in free:
        halved = {**sizes, name: sizes[name] // 2}
        if _running(program, halved) > _running(program, sizes):
            sizes = halved
    return sizes


def _running(program: Program, sizes: Mapping[str, int]) -> int:
    """The number of statements that have instances; 0 for sizes for which the function is not defined."""
    if sets.fixed(program.context, sizes).is_empty():
        return 0
    return sum(not sets.fixed(statement.instances, sizes).is_empty() for statement in program.statements.values())


def _check(program: Program, given: Mapping[str, int]) -> None:
    names = program.algorithm.params
    unknown = [name for name in given if name not in names]
    if unknown:
        have = f"has the parameters {', '.join(names)}" if names else "has no parameters"
        raise ArgumentError(f"{program.algorithm.name} {have}: {', '.join(unknown)} is not one of them")
    for name, value in given.items():
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise ArgumentError(f"the parameter {name} is an integer, not {value!r}")


def _at_least(program: Program, given: Mapping[str, int], size: int) -> dict[str, int] | None:
    """The smallest sizes of at least `size` each, and exactly those that are given."""
    context = program.context
    for name in program.algorithm.params:
        least = int(given.get(name, size))
        context = sets.param_between(context, name, least, least if name in given else LARGEST)
    return None if context.is_empty() else smallest_params(context)


def _smaller(value: int) -> int:
    return max(1, min(value, 8))


def _words(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in sizes.items())
